package routing

import (
	"net/netip"
	"slices"
)

// mostAnswers bounds the number of routes that answer for one block of a pool. An address that is left out splits the block into as many routes as
// its prefix is longer than the block's: a pool over the LAN of a thousand machines would fill kernels with tens of thousands.
const mostAnswers = 512

// overPools returns the routes that answer for addresses of pools which no machine serves: but for those of Nodes and their pods that are
// known. A pool may have some, as where a Node joined after it was made, and forwarded packets meet these routes before all
// others. coarse are the blocks of pools that are answered for with gaps wider than what is known, since the exact ones would need more
// than mostAnswers.
func overPools(view *View) (routes []Route, coarse []netip.Prefix) {
	known := slices.Concat(view.Cluster, view.Taken, hasOf(&view.Self))
	for _, n := range view.Nodes {
		known = append(known, hasOf(n)...)
	}
	for _, declared := range view.Declared {
		known = append(known, declared...)
	}
	for _, prefix := range view.Pools {
		rest, exact := answersFor(prefix.Masked(), known)
		for _, r := range rest {
			routes = append(routes, Route{Dst: r, Kind: UnreachableForwarded})
		}
		if !exact {
			coarse = append(coarse, prefix.Masked())
		}
	}
	slices.SortFunc(routes, Route.Compare)
	slices.SortFunc(coarse, comparePrefix)
	return slices.Compact(routes), slices.Compact(coarse)
}

// answersFor returns the blocks of a pool's block that are answered for: the rest of it without the known addresses. Where these would be too
// many, the blocks around known addresses are left out, each wider by four bits until they are few enough: packets to some addresses
// that no machine serves then go where the machine's other routes lead, and none to a Node or its pods is lost.
func answersFor(prefix netip.Prefix, known []netip.Prefix) (rest []netip.Prefix, exact bool) {
	inside := slices.DeleteFunc(slices.Clone(known), func(k netip.Prefix) bool { return !k.Overlaps(prefix) })
	for bits := prefix.Addr().BitLen(); bits > prefix.Bits(); bits -= 4 {
		if rest := without(nil, prefix, noLonger(inside, bits)); len(rest) <= mostAnswers {
			return rest, bits == prefix.Addr().BitLen()
		}
	}
	return without(nil, prefix, noLonger(inside, prefix.Bits())), len(inside) == 0 || prefix.IsSingleIP()
}

// noLonger returns prefixes, each widened to a number of bits where it has more.
func noLonger(all []netip.Prefix, bits int) []netip.Prefix {
	out := slices.Clone(all)
	for i, p := range out {
		out[i] = netip.PrefixFrom(p.Addr(), min(p.Bits(), bits)).Masked()
	}
	return out
}

// hasOf returns the pod CIDRs and addresses of a Node.
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

// without appends the rest of a prefix without others: the fewest prefixes, in order. It gives up once there are more than
// mostAnswers.
func without(out []netip.Prefix, prefix netip.Prefix, others []netip.Prefix) []netip.Prefix {
	var inside []netip.Prefix
	for _, other := range others {
		switch {
		case !other.Overlaps(prefix):
		case other.Bits() <= prefix.Bits():
			return out
		default:
			inside = append(inside, other)
		}
	}
	switch {
	case len(out) > mostAnswers:
		return out
	case len(inside) == 0:
		return append(out, prefix)
	}
	low, high := halves(prefix)
	return without(without(out, low, inside), high, inside)
}

// halves returns the two prefixes that a prefix of more than one address is made of.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	b := p.Addr().AsSlice()
	b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	upper, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(upper, p.Bits()+1)
}
