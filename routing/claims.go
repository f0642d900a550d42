package routing

import (
	"cmp"
	"net/netip"
	"slices"
)

// claim is one Node's word that a CIDR is its own.
type claim struct {
	cidr netip.Prefix
	node *Node
}

// claims returns who holds which pod CIDR, sorted by CIDR, and refuses those that
// overlap with an older Node's or leave the pod network.
func claims(v View) (held []claim, refused []Refusal) {
	all := make([]claim, 0, 2*(len(v.Nodes)+1))
	add := func(n *Node) {
		for _, c := range n.PodCIDRs {
			if !within(v.Cluster, c) && !within(v.Declared[n.Name], c) {
				refused = append(refused, Refusal{Node: n.Name, CIDR: c, Reason: PodCIDROutsideNetwork})
				continue
			}
			all = append(all, claim{c.Masked(), n})
		}
	}
	add(&v.Self)
	for i := range v.Nodes {
		if v.Nodes[i].Name != v.Self.Name {
			add(&v.Nodes[i])
		}
	}
	slices.SortFunc(all, func(a, b claim) int { return comparePrefix(a.cidr, b.cidr) })
	held = all[:0]
	for len(all) > 0 {
		n := overlapping(all)
		if n > 1 {
			refused = append(refused, settle(all[:n])...)
		}
		for _, c := range all[:n] {
			if c.node != nil {
				held = append(held, c)
			}
		}
		all = all[n:]
	}
	return held, refused
}

func within(cluster []netip.Prefix, c netip.Prefix) bool {
	return slices.ContainsFunc(cluster, func(p netip.Prefix) bool {
		return p.Bits() <= c.Bits() && p.Contains(c.Addr())
	})
}

// overlapping returns how many of the sorted claims lie within the first one's
// CIDR, that one included. Prefixes overlap only by containment, and what
// contains sorts before what it contains.
func overlapping(sorted []claim) int {
	n := 1
	for n < len(sorted) && sorted[0].cidr.Overlaps(sorted[n].cidr) {
		n++
	}
	return n
}

// settle gives the CIDRs of a group to the older Nodes, takes the node from the
// claims that lose, and tells both.
func settle(group []claim) (refused []Refusal) {
	byAge := make([]*claim, len(group))
	for i := range group {
		byAge[i] = &group[i]
	}
	slices.SortStableFunc(byAge, func(a, b *claim) int {
		return cmp.Or(a.node.Created.Compare(b.node.Created), cmp.Compare(a.node.Name, b.node.Name))
	})
	var winners []claim
	for _, c := range byAge {
		i := slices.IndexFunc(winners, func(w claim) bool { return w.cidr.Overlaps(c.cidr) })
		if i < 0 {
			winners = append(winners, *c)
			continue
		}
		if c.node.Name != winners[i].node.Name {
			refused = append(refused, Refusal{Node: c.node.Name, CIDR: c.cidr, Reason: PodCIDRTaken, Other: winners[i].node.Name})
		}
		c.node = nil
	}
	return refused
}
