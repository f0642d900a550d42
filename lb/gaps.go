package lb

import (
	"net/netip"
	"slices"
	"sort"
)

// run is an inclusive run of addresses of one family.
type run struct{ first, last netip.Addr }

func (r run) contains(a netip.Addr) bool {
	return r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0
}

// leafSize is the number of runs that a leaf of gaps is split at. It bounds what
// an insertion moves: 128 runs of 48 bytes.
const leafSize = 128

// gaps is a set of addresses of one family, kept as sorted, disjoint runs that do
// not touch. Its size follows the number of runs, never the number of addresses:
// a whole IPv6 /64 is one run. The runs lie in leaves, none of them empty, so that
// a change moves one leaf and not the whole set.
type gaps struct{ leaves [][]run }

// place is where a run lies. A leaf of -1 comes before the first run.
type place struct{ leaf, at int }

// lowest returns the lowest address of the set.
func (g *gaps) lowest() (netip.Addr, bool) {
	if len(g.leaves) == 0 {
		return netip.Addr{}, false
	}
	return g.leaves[0][0].first, true
}

// contains reports whether a is in the set.
func (g *gaps) contains(a netip.Addr) bool {
	p := g.seek(a)
	return p.leaf >= 0 && g.run(p).contains(a)
}

// take removes a.
func (g *gaps) take(a netip.Addr) {
	p := g.seek(a)
	if p.leaf < 0 || !g.run(p).contains(a) {
		return
	}
	r := g.run(p)
	switch {
	case r.first == r.last:
		g.remove(p)
	case a == r.first:
		r.first = a.Next()
	case a == r.last:
		r.last = a.Prev()
	default:
		rest := run{a.Next(), r.last}
		r.last = a.Prev()
		g.insert(p, rest)
	}
}

// give adds a.
func (g *gaps) give(a netip.Addr) { g.giveRun(run{a, a}) }

// giveRun adds a run that the set has no address of, or one address that it may have.
func (g *gaps) giveRun(r run) {
	p := g.seek(r.first)
	if p.leaf >= 0 && g.run(p).contains(r.first) {
		return
	}
	n, hasNext := g.next(p)
	joinsNext := hasNext && r.last.Next() == g.run(n).first
	joinsPrev := p.leaf >= 0 && g.run(p).last.Next() == r.first
	switch {
	case joinsPrev && joinsNext:
		g.run(p).last = g.run(n).last
		g.remove(n)
	case joinsPrev:
		g.run(p).last = r.last
	case joinsNext:
		g.run(n).first = r.first
	default:
		g.insert(p, r)
	}
}

// seek finds the last run that begins at a or before it.
func (g *gaps) seek(a netip.Addr) place {
	leaf := sort.Search(len(g.leaves), func(i int) bool { return a.Less(g.leaves[i][0].first) }) - 1
	if leaf < 0 {
		return place{leaf: -1}
	}
	runs := g.leaves[leaf]
	return place{leaf, sort.Search(len(runs), func(i int) bool { return a.Less(runs[i].first) }) - 1}
}

func (g *gaps) run(p place) *run { return &g.leaves[p.leaf][p.at] }

// next returns the place after p.
func (g *gaps) next(p place) (place, bool) {
	if p.leaf >= 0 && p.at+1 < len(g.leaves[p.leaf]) {
		return place{p.leaf, p.at + 1}, true
	}
	return place{leaf: p.leaf + 1}, p.leaf+1 < len(g.leaves)
}

// insert puts r right after p.
func (g *gaps) insert(p place, r run) {
	if p.leaf < 0 {
		if len(g.leaves) == 0 {
			g.leaves = append(g.leaves, []run{r})
			return
		}
		p = place{0, -1}
	}
	leaf := slices.Insert(g.leaves[p.leaf], p.at+1, r)
	g.leaves[p.leaf] = leaf
	if len(leaf) <= leafSize {
		return
	}
	half := len(leaf) / 2
	right := slices.Clone(leaf[half:])
	g.leaves[p.leaf] = leaf[:half:half]
	g.leaves = slices.Insert(g.leaves, p.leaf+1, right)
}

func (g *gaps) remove(p place) {
	leaf := slices.Delete(g.leaves[p.leaf], p.at, p.at+1)
	g.leaves[p.leaf] = leaf
	if len(leaf) == 0 {
		g.leaves = slices.Delete(g.leaves, p.leaf, p.leaf+1)
	}
}
