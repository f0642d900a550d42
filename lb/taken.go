package lb

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Taken is an address, or a block of them, that has another owner in the cluster: no VIP is given from it. It compares with ==.
type Taken struct {
	Prefix netip.Prefix
	Who    string // as "the pods of node w3"
	// Service has it among its externalIPs, and may have it as its VIP, too; zero: nobody may.
	Service ServiceKey
	// Proxied: kube-proxy rewrites packets to it before they are routed, so that no route of a pool takes anything from its
	// owner.
	Proxied bool
}

// SortTaken sorts by address, blocks before what is in them: informers list objects in any order, and the digest that
// allows an edit goes by this one.
func SortTaken(all []Taken) {
	wider := func(t Taken) int { return t.Prefix.Bits() - t.Prefix.Addr().BitLen() }
	slices.SortFunc(all, func(a, b Taken) int {
		return cmp.Or(cmp.Compare(wider(a), wider(b)), a.Prefix.Addr().Compare(b.Prefix.Addr()), strings.Compare(a.Who, b.Who))
	})
}
