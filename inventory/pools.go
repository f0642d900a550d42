package inventory

import (
	"cmp"
	"net/netip"
	"slices"
)

// Contains reports whether the pool has the address and does not exclude it.
func (p Pool) Contains(a netip.Addr) bool { return inRanges(p.Ranges, a) && !inRanges(p.Exclude, a) }

func inRanges(rs []Range, a netip.Addr) bool {
	for i := range rs {
		if rs[i].Contains(a) {
			return true
		}
	}
	return false
}

// Pool returns the pool of that name.
func (inv *Inventory) Pool(name string) (Pool, bool) {
	i, ok := slices.BinarySearchFunc(inv.Pools, name, func(p Pool, n string) int { return cmp.Compare(p.Name, n) })
	if !ok {
		return Pool{}, false
	}
	return inv.Pools[i], true
}

// PoolOf returns the pool that has the address.
func (inv *Inventory) PoolOf(a netip.Addr) (Pool, bool) {
	for i := range inv.Pools {
		if inRanges(inv.Pools[i].Ranges, a) && !inRanges(inv.Pools[i].Exclude, a) {
			return inv.Pools[i], true
		}
	}
	return Pool{}, false
}

// PoolsByPreference returns the pools in the order in which they are tried: by
// priority, lower first, then by name.
func (inv *Inventory) PoolsByPreference() []Pool {
	out := slices.Clone(inv.Pools)
	slices.SortFunc(out, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	return out
}
