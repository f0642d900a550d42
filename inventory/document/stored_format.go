package document

import (
	"slices"

	"plinth.dev/plinth/inventory"
)

// ReadsFormat is the highest number of the format of accepted inventories that this program reads.
const ReadsFormat = 3

// StoredFormat is the number of the format that an accepted inventory is stored in: 1, which
// older versions read, unless a pool says what they would pass over and must not. They would
// announce or give away what is not to be, or not so. Of 3 is what has a pool on a link: who reads 2
// would announce its addresses over BGP.
func StoredFormat(inv *inventory.Inventory) int {
	if slices.ContainsFunc(inv.Pools, func(p inventory.Pool) bool { return len(p.Links) > 0 }) {
		return 3
	}
	if slices.ContainsFunc(inv.Pools, extended) {
		return 2
	}
	return 1
}

// extended reports whether only programs that read format 2 understand the pool.
func extended(p inventory.Pool) bool {
	return len(p.NamespaceSelectors) > 0 || len(p.Selectors) > 1 || len(p.Advertise) > 1 || slices.ContainsFunc(p.Advertise, func(a inventory.Advertise) bool { return !a.Selector.Empty() })
}
