package inventory

import (
	"cmp"
	"net/netip"
	"slices"
)

// Contains reports whether the pool has the address and does not exclude it.
func (p Pool) Contains(a netip.Addr) bool { return p.Covers(a) && !InRanges(p.Exclude, a) }

// Covers reports whether the address lies in the pool's ranges, be it excluded or not:
// what was given before somebody excluded it stays the pool's to announce.
func (p Pool) Covers(a netip.Addr) bool { return InRanges(p.Ranges, a) }

// InRanges reports whether one of the ranges has the address.
func InRanges(rs []Range, a netip.Addr) bool {
	return slices.ContainsFunc(rs, func(r Range) bool { return r.Contains(a) })
}

// AllowsNamespace reports whether Services of a Namespace of that name, with these labels, may use
// the pool.
func (p Pool) AllowsNamespace(name string, labels map[string]string) bool {
	return len(p.Namespaces) == 0 && len(p.NamespaceSelectors) == 0 || slices.Contains(p.Namespaces, name) || anyMatches(p.NamespaceSelectors, labels)
}

// SelectsService reports whether a Service with these labels may use the pool.
func (p Pool) SelectsService(labels map[string]string) bool {
	return len(p.Selectors) == 0 || anyMatches(p.Selectors, labels)
}

func anyMatches(all []Selector, labels map[string]string) bool {
	return slices.ContainsFunc(all, func(s Selector) bool { return s.Matches(labels) })
}

// SelectsNamespaces reports whether any pool is for Namespaces with some labels.
func (inv *Inventory) SelectsNamespaces() bool {
	return slices.ContainsFunc(inv.Pools, func(p Pool) bool { return len(p.NamespaceSelectors) > 0 })
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
		if inv.Pools[i].Contains(a) {
			return inv.Pools[i], true
		}
	}
	return Pool{}, false
}

// AdvertiseLabels are the keys of the labels of Services that advertisements select by, sorted.
func (inv *Inventory) AdvertiseLabels() []string {
	var keys []string
	for _, p := range inv.Pools {
		for _, a := range p.Advertise {
			keys = append(keys, a.Selector.Keys()...)
		}
	}
	return SortedOnce(keys)
}
