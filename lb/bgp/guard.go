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

// ErrRefused is the error of an advertisement that may not be announced.
var ErrRefused = errors.New("not announced")

// maxAdvertisements bounds the routes of one session: more are a mistake, for which the router would
// close the session.
const maxAdvertisements = 50_000

// refusalsShown bounds the refusals in an error and in a [SessionState].
const refusalsShown = 10

// Refusal is an advertisement that is withheld.
type Refusal struct {
	Prefix netip.Prefix
	Reason Reason
	Detail string // the reason in a sentence
}

// Error returns the prefix and the reason.
func (r Refusal) Error() string { return fmt.Sprintf("%v: %v: %s", r.Prefix, ErrRefused, r.Detail) }

// Unwrap returns [ErrRefused].
func (r Refusal) Unwrap() error { return ErrRefused }

// Withheld is a kind of routes that a session withholds.
type Withheld struct {
	Reason Reason
	Family lb.Family
}

// All reports whether the session withholds whatever is of the family, since the router's capabilities exclude it.
func (w Withheld) All() bool {
	return w.Reason == FamilyNotNegotiated || w.Reason == NextHopNotNegotiated
}

// withheld counts the routes that are withheld, and lists the first of them and each kind that there is.
type withheld struct {
	count int
	first []Refusal
	kinds []Withheld
}

// add records a refusal.
func (w *withheld) add(r Refusal) {
	if kind := (Withheld{r.Reason, lb.FamilyOf(r.Prefix.Addr())}); !slices.Contains(w.kinds, kind) {
		w.kinds = append(w.kinds, kind)
	}
	if w.count++; len(w.first) < refusalsShown {
		w.first = append(w.first, r)
	}
}

// and adds up what two filters withhold.
func (w withheld) and(o withheld) withheld {
	all := slices.Concat(w.first, o.first)
	sum := withheld{count: w.count + o.count, first: all[:min(len(all), refusalsShown)], kinds: slices.Clone(w.kinds)}
	for _, kind := range o.kinds {
		if !slices.Contains(sum.kinds, kind) {
			sum.kinds = append(sum.kinds, kind)
		}
	}
	return sum
}

// err returns the refusals as one error; nil: there are none.
func (w *withheld) err() error {
	var errs []error
	for _, r := range w.first {
		errs = append(errs, r)
	}
	if more := w.count - len(w.first); more > 0 {
		errs = append(errs, fmt.Errorf("%w: %d more", ErrRefused, more))
	}
	return errors.Join(errs...)
}

// routes are the advertisements of one session.
type routes = sorted.List[advertise.Advertisement]

// bounds limit what any session may announce, whatever the planner decides.
type bounds struct {
	within []netip.Prefix // nil: anywhere
	ends   []netip.Addr   // of all sessions of the machine
}

// equal reports whether both limit the same.
func (b bounds) equal(o bounds) bool {
	return (b.within == nil) == (o.within == nil) && slices.Equal(b.within, o.within) && slices.Equal(b.ends, o.ends)
}

// bounds returns the limits of all sessions of a Config.
func (c Config) bounds() bounds {
	limits := bounds{within: c.Within}
	for _, s := range c.Sessions {
		for _, end := range []netip.Addr{s.Session.RouterAddr, s.Session.Local, s.Session.NextHop4, s.Session.NextHop6} {
			if end = end.WithZone(""); end.IsValid() && !slices.Contains(limits.ends, end) {
				limits.ends = append(limits.ends, end)
			}
		}
	}
	return limits
}

// guard checks the planner: a session announces only what the guard permits. It lets the valid
// advertisements through when some are not, and keeps its result for each. It checks again
// only changed advertisements, or all when terms or bounds changed.
type guard struct {
	session  inventory.Session
	bounds   bounds
	planned  routes
	valid    routes
	refusals map[netip.Prefix]Refusal
}

// filter separates the routes that the session may announce from those that are withheld.
func (g *guard) filter(sc SessionConfig, limits bounds) (routes, withheld) {
	if g.session != sc.Session || !g.bounds.equal(limits) || g.refusals == nil {
		*g = guard{session: sc.Session, bounds: limits, refusals: map[netip.Prefix]Refusal{}}
	}
	gone, put := sorted.Diff(g.planned, sc.Advertisements)
	for _, ad := range gone {
		delete(g.refusals, ad.Prefix)
	}
	valid := put[:0]
	for _, ad := range put {
		if reason, err := limits.check(sc.Session, ad); err != nil {
			g.refusals[ad.Prefix] = Refusal{ad.Prefix, reason, err.Error()}
			continue
		}
		valid = append(valid, ad)
	}
	g.planned, g.valid = sc.Advertisements, g.valid.Edit(gone, valid)
	if len(g.refusals) == 0 {
		g.valid = g.planned // the same, and the same memory
	}
	return g.first(maxAdvertisements)
}

// first returns at most so many valid routes, and the withheld ones.
func (g *guard) first(most int) (routes, withheld) {
	var refused withheld
	for _, prefix := range slices.SortedFunc(maps.Keys(g.refusals), netip.Prefix.Compare) {
		refused.add(g.refusals[prefix])
	}
	if g.valid.Len() <= most {
		return g.valid, refused
	}
	all := slices.Collect(g.valid.All())
	for _, ad := range all[most:] {
		refused.add(Refusal{ad.Prefix, TooManyPrefixes, fmt.Sprintf("of %d prefixes a session says at most %d", len(all), most)})
	}
	return sorted.Of(all[:most]...), refused
}

// check returns the reason for which an advertisement is withheld; nil: it may be announced.
func (b bounds) check(session inventory.Session, ad advertise.Advertisement) (Reason, error) {
	prefix := ad.Prefix
	switch {
	case !prefix.IsValid() || prefix != prefix.Masked() || prefix.Addr().Is4In6():
		return PrefixInvalid, errors.New("it is not a prefix in its canonical form")
	case prefix.Bits() == 0:
		return PrefixInvalid, errors.New("it is a default route")
	case !prefix.Addr().IsGlobalUnicast():
		return PrefixInvalid, errors.New("it is not unicast")
	case !session.Families.Has(prefix):
		return lb.SessionLacksFamily, errors.New("the session does not carry its family")
	}
	if end := slices.IndexFunc(b.ends, prefix.Contains); end >= 0 {
		return CoversSessionEnd, fmt.Errorf("it covers %v, an address of a session's end", b.ends[end])
	}
	if b.within != nil && !slices.ContainsFunc(b.within, func(w netip.Prefix) bool { return inventory.Covers(w, prefix) }) {
		return OutsidePoolsAndPods, errors.New("it lies outside every pool and pod CIDR")
	}
	if _, err := nextHop(session, ad); err != nil {
		return NextHopUnusable, err
	}
	return "", nil
}

// nextHop returns the next hop of a route; unspecified: the session's own source address, which GoBGP fills in.
// Routes of the family that the session does not run over need an address of the machine (RFC 4760,
// section 3), except for IPv4 over IPv6, where the IPv6 address will do (RFC 8950).
func nextHop(session inventory.Session, ad advertise.Advertisement) (netip.Addr, error) {
	v4 := ad.Prefix.Addr().Is4()
	if ad.NextHop.IsValid() {
		if v4 != ad.NextHop.Is4() {
			return netip.Addr{}, fmt.Errorf("its next hop %v is of the other family", ad.NextHop)
		}
		return ad.NextHop, nil
	}
	switch over4 := session.RouterAddr.Is4(); {
	case v4 && over4:
		return netip.IPv4Unspecified(), nil
	case !v4 && !over4:
		return netip.IPv6Unspecified(), nil
	case v4 && session.NextHop4.IsValid():
		return session.NextHop4, nil
	case v4:
		return netip.IPv6Unspecified(), nil
	case session.NextHop6.IsValid():
		return session.NextHop6, nil
	}
	return netip.Addr{}, errors.New("the machine has no IPv6 address to be its next hop")
}
