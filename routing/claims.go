package routing

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// claim is a CIDR that a Node has as its own.
type claim struct {
	cidr netip.Prefix
	node *Node
}

// compare orders claims by CIDR, so that what contains comes before what it contains.
func (c claim) compare(o claim) int {
	return cmp.Or(comparePrefix(c.cidr, o.cidr), cmp.Compare(c.node.Name, o.node.Name))
}

// claimsOf returns a Node's claims of pod CIDRs, and the refusals of those outside of the pod network.
func claimsOf(v *View, node *Node) (all []claim, refused []Refusal) {
	for _, c := range node.PodCIDRs {
		if !within(v.Cluster, c) && !within(v.Declared[node.Name], c) && !within(v.Declared[node.ProviderID], c) {
			refused = append(refused, Refusal{Node: node.Name, CIDR: c, Reason: PodCIDROutsideNetwork})
			continue
		}
		all = append(all, claim{c.Masked(), node})
	}
	return all, refused
}

func within(cluster []netip.Prefix, c netip.Prefix) bool {
	return slices.ContainsFunc(cluster, func(p netip.Prefix) bool {
		return inventory.Covers(p, c)
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

// settle gives the CIDRs of a group to the older Nodes, and refuses them to the others.
func settle(group []claim) (held []claim, refused []Refusal) {
	byAge := slices.Clone(group)
	slices.SortStableFunc(byAge, func(a, b claim) int {
		return cmp.Or(a.node.Created.Compare(b.node.Created), cmp.Compare(a.node.Name, b.node.Name))
	})
	for _, next := range byAge {
		i := slices.IndexFunc(held, func(w claim) bool { return w.cidr.Overlaps(next.cidr) })
		if i < 0 {
			held = append(held, next)
			continue
		}
		if next.node.Name != held[i].node.Name {
			refused = append(refused, Refusal{Node: next.node.Name, CIDR: next.cidr, Reason: PodCIDRInUse, Other: held[i].node.Name})
		}
	}
	slices.SortFunc(held, claim.compare)
	return held, refused
}

// claimIndex is all claims, sorted, and how many there are of each prefix length, by family.
type claimIndex struct {
	all     []claim
	lengths [2][129]int
}

func (b *claimIndex) open(all []claim) {
	slices.SortFunc(all, claim.compare)
	*b = claimIndex{all: slices.CompactFunc(all, func(x, y claim) bool { return x == y })}
	for _, c := range b.all {
		b.lengths[family(c.cidr.Addr())][c.cidr.Bits()]++
	}
}

func (b *claimIndex) insert(c claim) {
	if i, there := slices.BinarySearchFunc(b.all, c, claim.compare); !there {
		b.all = slices.Insert(b.all, i, c)
		b.lengths[family(c.cidr.Addr())][c.cidr.Bits()]++
	}
}

func (b *claimIndex) remove(c claim) {
	if i, there := slices.BinarySearchFunc(b.all, c, claim.compare); there {
		b.all = slices.Delete(b.all, i, i+1)
		b.lengths[family(c.cidr.Addr())][c.cidr.Bits()]--
	}
}

// widestOf returns the widest CIDR that is claimed and contains cidr; cidr itself, if none does.
func (b *claimIndex) widestOf(cidr netip.Prefix) netip.Prefix {
	for bits, n := range b.lengths[family(cidr.Addr())][:cidr.Bits()] {
		if n == 0 {
			continue
		}
		wider := netip.PrefixFrom(cidr.Addr(), bits).Masked()
		if run := b.within(wider); len(run) > 0 && run[0].cidr == wider {
			return wider
		}
	}
	return cidr
}

// within returns the claims to what lies in p.
func (b *claimIndex) within(p netip.Prefix) []claim {
	from, to := span(b.all, p, func(c claim) netip.Prefix { return c.cidr })
	return b.all[from:to]
}

// span is where, in a list that is sorted by prefix, those lie that p contains.
func span[T any](sorted []T, p netip.Prefix, of func(T) netip.Prefix) (from, to int) {
	from, _ = slices.BinarySearchFunc(sorted, p, func(t T, p netip.Prefix) int { return comparePrefix(of(t), p) })
	to = from
	for to < len(sorted) && p.Contains(of(sorted[to]).Addr()) {
		to++
	}
	return from, to
}
