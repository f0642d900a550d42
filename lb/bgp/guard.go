package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// ErrRefused is the error of an advertisement that may not leave.
var ErrRefused = errors.New("not announced")

// maxAdvertisements bounds what one session may say: more is a mistake, and would
// make the router close the session for all of it.
const maxAdvertisements = 50_000

// routes are the advertisements of one session, sorted by prefix, one for each.
type routes []lb.Advertisement

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
// say. It keeps the good ones when some are bad. What was let through before, under the
// same bounds, is known to be good.
func guard(s inventory.Session, ads []lb.Advertisement, b bounds, known routes) (routes, error) {
	var errs []error
	good := make(routes, 0, len(ads))
	for _, ad := range ads {
		for len(known) > 0 && byPrefix(known[0], ad) < 0 {
			known = known[1:]
		}
		if len(known) > 0 && known[0] == ad {
			good = append(good, ad)
			continue
		}
		if err := admit(s, ad, b); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w: %w", ad.Prefix, ErrRefused, err))
			continue
		}
		good = append(good, ad)
	}
	once, twice := unique(good)
	if twice > 0 {
		errs = append(errs, fmt.Errorf("%w: %d prefixes are given twice with different attributes", ErrRefused, twice))
	}
	if len(once) > maxAdvertisements {
		errs = append(errs, fmt.Errorf("%w: %d of %d prefixes, a session says at most %d", ErrRefused, len(once)-maxAdvertisements, len(once), maxAdvertisements))
		once = once[:maxAdvertisements]
	}
	return once, errors.Join(errs...)
}

// unique sorts by prefix and leaves the first of each. Twice counts those that went
// and were not the same. What a planner gives is sorted already.
func unique(ads routes) (once routes, twice int) {
	ordered := true
	for i := 1; i < len(ads) && ordered; i++ {
		ordered = byPrefix(ads[i-1], ads[i]) < 0
	}
	if ordered {
		return ads, 0
	}
	slices.SortStableFunc(ads, byPrefix)
	ads = slices.Compact(ads)
	all := len(ads)
	once = slices.CompactFunc(ads, samePrefix)
	return once, all - len(once)
}

func byPrefix(a, b lb.Advertisement) int    { return lb.ComparePrefixes(a.Prefix, b.Prefix) }
func samePrefix(a, b lb.Advertisement) bool { return a.Prefix == b.Prefix }

// difference lists what want has and have has not, or not like this, and what is gone.
func difference(have, want routes) (add, gone routes) {
	for len(have) > 0 || len(want) > 0 {
		switch c := compareFirst(have, want); {
		case c < 0:
			gone, have = append(gone, have[0]), have[1:]
		case c > 0:
			add, want = append(add, want[0]), want[1:]
		default:
			if have[0] != want[0] {
				add = append(add, want[0])
			}
			have, want = have[1:], want[1:]
		}
	}
	return add, gone
}

// compareFirst compares the first of each; an end comes last.
func compareFirst(have, want routes) int {
	switch {
	case len(have) == 0:
		return 1
	case len(want) == 0:
		return -1
	}
	return byPrefix(have[0], want[0])
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
