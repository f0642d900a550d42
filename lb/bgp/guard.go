package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// ErrRefused is the error of an advertisement that may not leave.
var ErrRefused = errors.New("not announced")

// maxAdvertisements bounds what one session may say: more is a mistake, and would
// make the router close the session for all of it.
const maxAdvertisements = 50_000

// routes are the advertisements of one session.
type routes = sorted.List[lb.Advertisement]

// bounds are what no session may go beyond, whatever the planner says.
type bounds struct {
	within []netip.Prefix // nil: anywhere
	ends   []netip.Addr   // of all sessions of the machine
}

func (b bounds) equal(o bounds) bool {
	return (b.within == nil) == (o.within == nil) && slices.Equal(b.within, o.within) && slices.Equal(b.ends, o.ends)
}

func (c Config) bounds() bounds {
	b := bounds{within: c.Within}
	for _, s := range c.Sessions {
		for _, end := range []netip.Addr{s.Session.RouterAddr, s.Session.Local, s.Session.NextHop4, s.Session.NextHop6} {
			if end = end.WithZone(""); end.IsValid() && !slices.Contains(b.ends, end) {
				b.ends = append(b.ends, end)
			}
		}
	}
	return b
}

// guard stands behind the planner: what it lets through is all that a session may
// say. It keeps the good ones when some are bad, and remembers what it said of each:
// it looks at what is new, or at all where the terms or bounds are others.
type guard struct {
	session inventory.Session
	bounds  bounds
	asked   routes
	good    routes
	bad     map[netip.Prefix]error
}

func (g *guard) admit(c SessionConfig, b bounds) (routes, error) {
	if g.session != c.Session || !g.bounds.equal(b) || g.bad == nil {
		*g = guard{session: c.Session, bounds: b, bad: map[netip.Prefix]error{}}
	}
	gone, put := sorted.Diff(g.asked, c.Advertisements)
	for _, ad := range gone {
		delete(g.bad, ad.Prefix)
	}
	good := put[:0]
	for _, ad := range put {
		if err := admit(c.Session, ad, b); err != nil {
			g.bad[ad.Prefix] = fmt.Errorf("%v: %w: %w", ad.Prefix, ErrRefused, err)
			continue
		}
		good = append(good, ad)
	}
	g.asked, g.good = c.Advertisements, g.good.Edit(gone, good)
	if len(g.bad) == 0 {
		g.good = g.asked // the same, and the same memory
	}
	return g.first(maxAdvertisements)
}

// first returns at most so many of the good ones, and what is to be said of the rest.
func (g *guard) first(most int) (routes, error) {
	var errs []error
	for _, p := range slices.SortedFunc(maps.Keys(g.bad), netip.Prefix.Compare) {
		errs = append(errs, g.bad[p])
	}
	all := g.good.Len()
	if all <= most {
		return g.good, errors.Join(errs...)
	}
	errs = append(errs, fmt.Errorf("%w: %d of %d prefixes, a session says at most %d", ErrRefused, all-most, all, most))
	return sorted.Of(slices.Collect(g.good.All())[:most]...), errors.Join(errs...)
}

func admit(s inventory.Session, ad lb.Advertisement, b bounds) error {
	p := ad.Prefix
	switch {
	case !p.IsValid() || p != p.Masked() || p.Addr().Is4In6():
		return errors.New("it is not a prefix in its canonical form")
	case p.Bits() == 0:
		return errors.New("it is a default route")
	case !p.Addr().IsGlobalUnicast():
		return errors.New("it is not unicast")
	case !s.Families.Has(p):
		return errors.New("the session does not carry its family")
	}
	for _, end := range b.ends {
		if p.Contains(end) {
			return fmt.Errorf("it covers %v, an address of a session's end", end)
		}
	}
	if b.within != nil && !slices.ContainsFunc(b.within, func(w netip.Prefix) bool { return covers(w, p) }) {
		return errors.New("it lies outside every pool and pod CIDR")
	}
	if _, err := nextHop(s, ad); err != nil {
		return err
	}
	return nil
}

func covers(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// nextHop is what a route is told with: unspecified means the session's own source
// address, which GoBGP fills in. Routes of the family that the session does not
// run over need an address of the machine (RFC 4760, section 3), except for IPv4
// over IPv6, where the IPv6 address will do (RFC 8950).
func nextHop(s inventory.Session, ad lb.Advertisement) (netip.Addr, error) {
	v4 := ad.Prefix.Addr().Is4()
	if ad.NextHop.IsValid() {
		if v4 != ad.NextHop.Is4() {
			return netip.Addr{}, fmt.Errorf("its next hop %v is of the other family", ad.NextHop)
		}
		return ad.NextHop, nil
	}
	switch over4 := s.RouterAddr.Is4(); {
	case v4 && over4:
		return netip.IPv4Unspecified(), nil
	case !v4 && !over4:
		return netip.IPv6Unspecified(), nil
	case v4 && s.NextHop4.IsValid():
		return s.NextHop4, nil
	case v4:
		return netip.IPv6Unspecified(), nil
	case s.NextHop6.IsValid():
		return s.NextHop6, nil
	}
	return netip.Addr{}, errors.New("the machine has no IPv6 address to be its next hop")
}
