package routing

import (
	"net/netip"
	"slices"
)

// overPools are the routes that answer for addresses of pools which nobody serves: but for those of Nodes and their pods that are
// known. A pool may have some, as where a Node joined after it was made, and forwarded packets meet these routes before all
// others.
func overPools(v *View) (routes []Route) {
	known := slices.Concat(v.Cluster, hasOf(&v.Self))
	for _, n := range v.Nodes {
		known = append(known, hasOf(n)...)
	}
	for _, declared := range v.Declared {
		known = append(known, declared...)
	}
	for _, p := range v.Pools {
		for _, rest := range without(p.Masked(), known) {
			routes = append(routes, Route{Dst: rest, Kind: UnreachableForwarded})
		}
	}
	slices.SortFunc(routes, Route.Compare)
	return slices.Compact(routes)
}

// hasOf are the pod CIDRs and addresses of a Node.
func hasOf(n *Node) (all []netip.Prefix) {
	all = slices.Clone(n.PodCIDRs)
	for _, a := range n.Addresses {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	return all
}

// touchesPools reports whether a pool has something of a Node, as it was or is.
func (c change) touchesPools(pools []netip.Prefix) bool {
	return slices.ContainsFunc([]*Node{c.old, c.new}, func(n *Node) bool {
		return n != nil && slices.ContainsFunc(hasOf(n), func(has netip.Prefix) bool { return slices.ContainsFunc(pools, has.Overlaps) })
	})
}

// without is what is left of a prefix without others: the fewest prefixes, in order.
func without(p netip.Prefix, others []netip.Prefix) []netip.Prefix {
	var inside []netip.Prefix
	for _, o := range others {
		switch {
		case !o.Overlaps(p):
		case o.Bits() <= p.Bits():
			return nil
		default:
			inside = append(inside, o)
		}
	}
	if len(inside) == 0 {
		return []netip.Prefix{p}
	}
	low, high := halves(p)
	return append(without(low, inside), without(high, inside)...)
}

// halves are the two prefixes that a prefix of more than one address is made of.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	b := p.Addr().AsSlice()
	b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	upper, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(upper, p.Bits()+1)
}
