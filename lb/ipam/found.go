package ipam

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/lb"
)

// search is the state of one decision.
type search struct {
	l     *Ledger
	r     Request
	told  []netip.Addr  // to the Service, though its status may not show it yet
	left  []netip.Addr  // by an earlier Service of its name; its status shows none of them
	first [2]Assignment // what was found first, by family
	more  []Assignment  // what was found besides, of Services that have several of a family
}

// has reports whether a was found.
func (s *search) has(a netip.Addr) bool {
	return s.first[index(lb.FamilyOf(a))].Addr == a || slices.ContainsFunc(s.more, func(v Assignment) bool { return v.Addr == a })
}

// missing reports whether nothing was found of a family that is asked for. Who asks for
// addresses of it gets all of them, or is refused.
func (s *search) missing(f lb.Family) bool {
	return s.r.Want.has(f) && !s.first[index(f)].Addr.IsValid()
}

// short reports whether too little was found.
func (s *search) short() bool {
	first, second := s.missing(s.r.Want.First), s.missing(s.r.Want.Second)
	if s.r.Want.Optional {
		return first && second
	}
	return first || second
}

// take adds an address to what was found.
func (s *search) take(a netip.Addr) {
	_, held := s.l.holdings[a].holder(s.r.Service)
	s.add(Assignment{Addr: a, Pool: s.l.Pool(a), New: !held})
}

func (s *search) add(v Assignment) {
	if first := &s.first[index(lb.FamilyOf(v.Addr))]; !first.Addr.IsValid() {
		*first = v
		return
	}
	s.more = append(s.more, v)
}

// held returns the assignment of an address that the Service holds.
func (s *search) held(a netip.Addr) Assignment {
	return Assignment{Addr: a, Pool: s.l.holdings[a].pool}
}

// keep takes over what the Service holds and may go on holding: of a family, the addresses
// that it asks for, or else one of those that it holds. That is the one that its status shows,
// by which clients know it, then the one that it was told of, then the older: two leaders that
// gave it one each, or one that woke up late and gave it a second, then agree. What an earlier
// Service of its name left is neither shown nor told.
func (s *search) keep() {
	for _, addr := range s.l.byService[s.r.Service] {
		f := lb.FamilyOf(addr)
		switch first := &s.first[index(f)]; {
		case !s.r.Want.has(f), !s.mayStay(addr):
		case s.r.asks(f):
			s.add(s.held(addr))
		case !first.Addr.IsValid() || s.prefers(addr, first.Addr):
			*first = s.held(addr)
		}
	}
}

// keepReported takes over what a Service holds that is refused: what clients know it by it goes
// on having, be it several of a family.
func (s *search) keepReported() {
	for _, addr := range s.l.byService[s.r.Service] {
		family := lb.FamilyOf(addr)
		switch first := &s.first[index(family)]; {
		case !s.r.Want.has(family):
		case !first.Addr.IsValid():
			*first = s.held(addr)
		case s.known(addr) == s.known(first.Addr) && s.known(addr) != unreported:
			s.more = append(s.more, s.held(addr))
		case s.prefers(addr, first.Addr):
			s.more = slices.DeleteFunc(s.more, func(v Assignment) bool { return lb.FamilyOf(v.Addr) == family })
			*first = s.held(addr)
		}
	}
}

// How well an address of a Service is known: those that are shown come first.
const (
	shown = iota
	told
	unreported
)

func (s *search) known(a netip.Addr) int {
	switch {
	case slices.Contains(s.r.Shown, a):
		return shown
	case slices.Contains(s.told, a):
		return told
	}
	return unreported
}

// prefers reports whether the Service is to keep a, and not b.
func (s *search) prefers(a, b netip.Addr) bool {
	if x, y := s.known(a), s.known(b); x != y || x == shown {
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(slices.Index(s.r.Shown, a), slices.Index(s.r.Shown, b))) < 0
	}
	return s.l.holdings[a].before(s.l.holdings[b])
}

// vips returns the addresses that were found, family by family; several of one in the given order.
func (s *search) vips(order []netip.Addr) (vips []Assignment) {
	for _, family := range s.r.Want.families() {
		if !s.missing(family) {
			vips = append(vips, s.first[index(family)])
		}
		if len(s.more) == 0 {
			continue
		}
		from := max(0, len(vips)-1)
		for _, v := range s.more {
			if lb.FamilyOf(v.Addr) == family {
				vips = append(vips, v)
			}
		}
		slices.SortStableFunc(vips[from:], func(x, y Assignment) int {
			return cmp.Compare(slices.Index(order, x.Addr), slices.Index(order, y.Addr))
		})
	}
	return vips
}
