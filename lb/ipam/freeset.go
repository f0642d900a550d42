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

// place is the position of a run. A leaf of -1 comes before the first run.
type place struct{ leaf, at int }

// lowest returns the lowest address of the set.
func (f *freeSet) lowest() (netip.Addr, bool) {
	if len(f.leaves) == 0 {
		return netip.Addr{}, false
	}
	return f.leaves[0][0].first, true
}

// size returns the number of addresses in the set, or the largest number where there are more.
func (f *freeSet) size() (count uint64) {
	for _, leaf := range f.leaves {
		for _, r := range leaf {
			more := inventory.Range{First: r.first, Last: r.last}.Size()
			if count += more; count < more {
				return math.MaxUint64
			}
		}
	}
	return count
}

// contains reports whether a is in the set.
func (f *freeSet) contains(a netip.Addr) bool {
	p := f.seek(a)
	return p.leaf >= 0 && f.run(p).contains(a)
}

// take removes a.
func (f *freeSet) take(addr netip.Addr) {
	place := f.seek(addr)
	if place.leaf < 0 || !f.run(place).contains(addr) {
		return
	}
	free := f.run(place)
	switch {
	case free.first == free.last:
		f.remove(place)
	case addr == free.first:
		free.first = addr.Next()
	case addr == free.last:
		free.last = addr.Prev()
	default:
		rest := run{addr.Next(), free.last}
		free.last = addr.Prev()
		f.insert(place, rest)
	}
}

// give adds a.
func (f *freeSet) give(a netip.Addr) { f.giveRun(run{a, a}) }

// giveRun adds a run that the set has no address of, or one address that it may have.
func (f *freeSet) giveRun(run run) {
	place := f.seek(run.first)
	if place.leaf >= 0 && f.run(place).contains(run.first) {
		return
	}
	next, hasNext := f.next(place)
	joinsNext := hasNext && run.last.Next() == f.run(next).first
	joinsPrev := place.leaf >= 0 && f.run(place).last.Next() == run.first
	switch {
	case joinsPrev && joinsNext:
		f.run(place).last = f.run(next).last
		f.remove(next)
	case joinsPrev:
		f.run(place).last = run.last
	case joinsNext:
		f.run(next).first = run.first
	default:
		f.insert(place, run)
	}
}

// seek finds the last run that begins at a or before it.
func (f *freeSet) seek(addr netip.Addr) place {
	leaf := sort.Search(len(f.leaves), func(i int) bool { return addr.Less(f.leaves[i][0].first) }) - 1
	if leaf < 0 {
		return place{leaf: -1}
	}
	runs := f.leaves[leaf]
	return place{leaf, sort.Search(len(runs), func(i int) bool { return addr.Less(runs[i].first) }) - 1}
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
func (f *freeSet) insert(after place, span run) {
	if after.leaf < 0 {
		if len(f.leaves) == 0 {
			f.leaves = append(f.leaves, []run{span})
			return
		}
		after = place{0, -1}
	}
	leaf := slices.Insert(f.leaves[after.leaf], after.at+1, span)
	f.leaves[after.leaf] = leaf
	if len(leaf) <= leafSize {
		return
	}
	half := len(leaf) / 2
	right := slices.Clone(leaf[half:])
	f.leaves[after.leaf] = leaf[:half:half]
	f.leaves = slices.Insert(f.leaves, after.leaf+1, right)
}

func (f *freeSet) remove(p place) {
	leaf := slices.Delete(f.leaves[p.leaf], p.at, p.at+1)
	f.leaves[p.leaf] = leaf
	if len(leaf) == 0 {
		f.leaves = slices.Delete(f.leaves, p.leaf, p.leaf+1)
	}
}
