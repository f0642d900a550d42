package ipam

import (
	"math"
	"net/netip"
	"slices"
	"sort"

	"plinth.dev/plinth/inventory"
)

// run is an inclusive run of addresses of one family.
type run struct{ first, last netip.Addr }

func (r run) contains(a netip.Addr) bool {
	return r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0
}

// leafSize is the number of runs that a leaf of a free set is split at. It bounds what
// an insertion moves: 128 runs of 48 bytes.
const leafSize = 128

// freeSet is a set of addresses of one family, kept as sorted, disjoint runs that do
// not touch. Its size follows the number of runs, never the number of addresses:
// a whole IPv6 /64 is one run. The runs lie in leaves, none of them empty, so that
// a change moves one leaf and not the whole set.
type freeSet struct{ leaves [][]run }

// place is where a run lies. A leaf of -1 comes before the first run.
type place struct{ leaf, at int }

// lowest returns the lowest address of the set.
func (f *freeSet) lowest() (netip.Addr, bool) {
	if len(f.leaves) == 0 {
		return netip.Addr{}, false
	}
	return f.leaves[0][0].first, true
}

// size is how many addresses the set has, or the largest number where there are more.
func (f *freeSet) size() (n uint64) {
	for _, leaf := range f.leaves {
		for _, r := range leaf {
			more := inventory.Range{First: r.first, Last: r.last}.Size()
			if n += more; n < more {
				return math.MaxUint64
			}
		}
	}
	return n
}

// contains reports whether a is in the set.
func (f *freeSet) contains(a netip.Addr) bool {
	p := f.seek(a)
	return p.leaf >= 0 && f.run(p).contains(a)
}

// take removes a.
func (f *freeSet) take(a netip.Addr) {
	p := f.seek(a)
	if p.leaf < 0 || !f.run(p).contains(a) {
		return
	}
	r := f.run(p)
	switch {
	case r.first == r.last:
		f.remove(p)
	case a == r.first:
		r.first = a.Next()
	case a == r.last:
		r.last = a.Prev()
	default:
		rest := run{a.Next(), r.last}
		r.last = a.Prev()
		f.insert(p, rest)
	}
}

// give adds a.
func (f *freeSet) give(a netip.Addr) { f.giveRun(run{a, a}) }

// giveRun adds a run that the set has no address of, or one address that it may have.
func (f *freeSet) giveRun(r run) {
	p := f.seek(r.first)
	if p.leaf >= 0 && f.run(p).contains(r.first) {
		return
	}
	n, hasNext := f.next(p)
	joinsNext := hasNext && r.last.Next() == f.run(n).first
	joinsPrev := p.leaf >= 0 && f.run(p).last.Next() == r.first
	switch {
	case joinsPrev && joinsNext:
		f.run(p).last = f.run(n).last
		f.remove(n)
	case joinsPrev:
		f.run(p).last = r.last
	case joinsNext:
		f.run(n).first = r.first
	default:
		f.insert(p, r)
	}
}

// seek finds the last run that begins at a or before it.
func (f *freeSet) seek(a netip.Addr) place {
	leaf := sort.Search(len(f.leaves), func(i int) bool { return a.Less(f.leaves[i][0].first) }) - 1
	if leaf < 0 {
		return place{leaf: -1}
	}
	runs := f.leaves[leaf]
	return place{leaf, sort.Search(len(runs), func(i int) bool { return a.Less(runs[i].first) }) - 1}
}

func (f *freeSet) run(p place) *run { return &f.leaves[p.leaf][p.at] }

// next returns the place after p.
func (f *freeSet) next(p place) (place, bool) {
	if p.leaf >= 0 && p.at+1 < len(f.leaves[p.leaf]) {
		return place{p.leaf, p.at + 1}, true
	}
	return place{leaf: p.leaf + 1}, p.leaf+1 < len(f.leaves)
}

// insert puts r right after p.
func (f *freeSet) insert(p place, r run) {
	if p.leaf < 0 {
		if len(f.leaves) == 0 {
			f.leaves = append(f.leaves, []run{r})
			return
		}
		p = place{0, -1}
	}
	leaf := slices.Insert(f.leaves[p.leaf], p.at+1, r)
	f.leaves[p.leaf] = leaf
	if len(leaf) <= leafSize {
		return
	}
	half := len(leaf) / 2
	right := slices.Clone(leaf[half:])
	f.leaves[p.leaf] = leaf[:half:half]
	f.leaves = slices.Insert(f.leaves, p.leaf+1, right)
}

func (f *freeSet) remove(p place) {
	leaf := slices.Delete(f.leaves[p.leaf], p.at, p.at+1)
	f.leaves[p.leaf] = leaf
	if len(leaf) == 0 {
		f.leaves = slices.Delete(f.leaves, p.leaf, p.leaf+1)
	}
}
