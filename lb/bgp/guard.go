package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// ErrRefused is the error of an advertisement that may not be sent.
var ErrRefused = errors.New("not announced")

// maxAdvertisements bounds what one session may announce: more is a mistake, and would
// make the router close the session for all of it.
const maxAdvertisements = 50_000

// refusalsShown bounds how many refusals an error and a [SessionState] list.
const refusalsShown = 10

// Reason is why an advertisement is withheld, of the same kind as the planner's.
type Reason = lb.Reason

// Why a session does not announce what it was given. Each has a row in
// docs/reference/reasons.md.
const (
	PrefixInvalid       Reason = "PrefixInvalid"       // nobody may announce it: a default route, multicast, host bits
	CoversSessionEnd    Reason = "CoversSessionEnd"    // an address of a session's end is in it
	OutsidePoolsAndPods Reason = "OutsidePoolsAndPods" // it is in no pool, and no pod CIDR
	NextHopUnusable     Reason = "NextHopUnusable"     // the router could not reach its next hop
	TooManyPrefixes     Reason = "TooManyPrefixes"     // the session announces as many as it may without it
)

// Refusal is an advertisement that is withheld.
type Refusal struct {
	Prefix netip.Prefix
	Reason Reason
	Detail string // the reason in a sentence
}

func (r Refusal) Error() string { return fmt.Sprintf("%v: %v: %s", r.Prefix, ErrRefused, r.Detail) }

// Unwrap makes it an [ErrRefused].
func (r Refusal) Unwrap() error { return ErrRefused }

// withheld is what a guard withholds: how many, and the first of them.
type withheld struct {
	count int
	first []Refusal
}

func (k *withheld) add(r Refusal) {
	if k.count++; len(k.first) < refusalsShown {
		k.first = append(k.first, r)
	}
}

// and is what either withholds.
func (k withheld) and(o withheld) withheld {
	all := slices.Concat(k.first, o.first)
	return withheld{count: k.count + o.count, first: all[:min(len(all), refusalsShown)]}
}

func (k *withheld) err() error {
	var errs []error
	for _, r := range k.first {
		errs = append(errs, r)
	}
	if more := k.count - len(k.first); more > 0 {
		errs = append(errs, fmt.Errorf("%w: %d more", ErrRefused, more))
	}
	return errors.Join(errs...)
}

// routes are the advertisements of one session.
type routes = sorted.List[advertise.Advertisement]

// bounds are what no session may announce beyond, whatever the planner decides.
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

// guard checks the planner: a session announces only what the guard admits. It admits
// the good ones when some are bad, and remembers what it decided of each. It re-checks
// only changed advertisements, or all when terms or bounds changed.
type guard struct {
	session inventory.Session
	bounds  bounds
	wanted  routes
	good    routes
	bad     map[netip.Prefix]Refusal
}

func (g *guard) admit(c SessionConfig, b bounds) (routes, withheld) {
	if g.session != c.Session || !g.bounds.equal(b) || g.bad == nil {
		*g = guard{session: c.Session, bounds: b, bad: map[netip.Prefix]Refusal{}}
	}
	gone, put := sorted.Diff(g.wanted, c.Advertisements)
	for _, ad := range gone {
		delete(g.bad, ad.Prefix)
	}
	good := put[:0]
	for _, ad := range put {
		if reason, err := admit(c.Session, ad, b); err != nil {
			g.bad[ad.Prefix] = Refusal{ad.Prefix, reason, err.Error()}
			continue
		}
		good = append(good, ad)
	}
	g.wanted, g.good = c.Advertisements, g.good.Edit(gone, good)
	if len(g.bad) == 0 {
		g.good = g.wanted // the same, and the same memory
	}
	return g.first(maxAdvertisements)
}

// first returns at most so many of the good ones, and what is withheld.
func (g *guard) first(most int) (routes, withheld) {
	var k withheld
	for _, p := range slices.SortedFunc(maps.Keys(g.bad), netip.Prefix.Compare) {
		k.add(g.bad[p])
	}
	if g.good.Len() <= most {
		return g.good, k
	}
	all := slices.Collect(g.good.All())
	for _, ad := range all[most:] {
		k.add(Refusal{ad.Prefix, TooManyPrefixes, fmt.Sprintf("of %d prefixes a session says at most %d", len(all), most)})
	}
	return sorted.Of(all[:most]...), k
}

func admit(s inventory.Session, ad advertise.Advertisement, b bounds) (Reason, error) {
	p := ad.Prefix
	switch {
	case !p.IsValid() || p != p.Masked() || p.Addr().Is4In6():
		return PrefixInvalid, errors.New("it is not a prefix in its canonical form")
	case p.Bits() == 0:
		return PrefixInvalid, errors.New("it is a default route")
	case !p.Addr().IsGlobalUnicast():
		return PrefixInvalid, errors.New("it is not unicast")
	case !s.Families.Has(p):
		return lb.SessionLacksFamily, errors.New("the session does not carry its family")
	}
	for _, end := range b.ends {
		if p.Contains(end) {
			return CoversSessionEnd, fmt.Errorf("it covers %v, an address of a session's end", end)
		}
	}
	if b.within != nil && !slices.ContainsFunc(b.within, func(w netip.Prefix) bool { return inventory.Covers(w, p) }) {
		return OutsidePoolsAndPods, errors.New("it lies outside every pool and pod CIDR")
	}
	if _, err := nextHop(s, ad); err != nil {
		return NextHopUnusable, err
	}
	return "", nil
}

// nextHop is the next hop that a route is announced with: unspecified means the session's own source
// address, which GoBGP fills in. Routes of the family that the session does not
// run over need an address of the machine (RFC 4760, section 3), except for IPv4
// over IPv6, where the IPv6 address will do (RFC 8950).
func nextHop(s inventory.Session, ad advertise.Advertisement) (netip.Addr, error) {
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
