package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

// Config holds the desired sessions of a [Speaker], and what each announces.
type Config struct {
	// RouterID is the BGP identifier (RFC 6286): any IPv4 address that no other
	// speaker of the AS uses.
	RouterID netip.Addr
	// Restarting is set where this process follows another whose routes a router may
	// still hold (RFC 4724, section 4.1). It counts when a session is first set.
	Restarting bool
	// Within bounds what may be announced, whatever the sessions contain: the declared pools and
	// pod CIDRs. nil: unbounded. Empty, but not nil: nothing is announced.
	Within   []netip.Prefix
	Sessions []SessionConfig
}

// SessionConfig is a session with its advertisements and its password.
type SessionConfig struct {
	advertise.SessionPlan
	Password Password
}

// Key identifies a session by its router, and the address of the router that it connects to.
type Key struct {
	Router string
	Addr   netip.Addr
}

// String returns the router and its address, as in "tor-r1/10.10.1.1".
func (k Key) String() string { return k.Router + "/" + k.Addr.String() }

// compare orders keys by router, then by address.
func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Router, o.Router), k.Addr.Compare(o.Addr))
}

// key returns the key of the session.
func (c SessionConfig) key() Key {
	return Key{Router: c.Session.Router, Addr: c.Session.RouterAddr}
}

// terms are the parameters of a session; they compare with ==. A change of terms needs a new session, a
// change of advertisements does not.
type terms struct {
	RouterID netip.Addr
	Session  inventory.Session
	Password Password
}

// terms omits the Secret that the password is from: the password itself counts.
func (c SessionConfig) terms(routerID netip.Addr) terms {
	s := c.Session.Terms()
	if c.Password != "" {
		s.Password = inventory.SecretKey{}
	}
	return terms{RouterID: routerID, Session: s, Password: c.Password}
}

// allow reports whether a session with these terms stays up with the next: where they differ
// in BFD alone, unless that is switched off. While BGP is up routers take the end of a BFD session
// for a lost path (FRR 8.4 and BIRD 2.0, against RFC 5882, section 4.2), and not where the
// BGP session is closed for a graceful restart before.
func (t terms) allow(next terms) bool {
	if t.Session.BFD.Interval > 0 && next.Session.BFD.Interval == 0 {
		return false
	}
	t.Session.BFD, next.Session.BFD = inventory.BFDProfile{}, inventory.BFDProfile{}
	return t == next
}

// Errors of [Speaker.Set] about a session as a whole.
var (
	ErrClosed          = errors.New("the speaker has left or stopped")
	ErrRouterID        = errors.New("the router ID is not an IPv4 address")
	ErrTwice           = errors.New("two sessions to the same address of a router")
	ErrPasswordMissing = errors.New("the session needs a password, and its Secret has none")
	ErrPasswordLength  = errors.New("a password has 1 to 80 bytes")
	ErrTerms           = errors.New("the session cannot be set up")
)

const (
	maxPassword = 80 // bytes, TCP_MD5SIG_MAXKEYLEN of Linux
	minHoldTime = 3 * time.Second
)

// check refuses terms that cannot work or are unsafe.
func (t terms) check() error {
	if !t.RouterID.Is4() || t.RouterID.IsUnspecified() {
		return fmt.Errorf("%w: %v", ErrRouterID, t.RouterID)
	}
	session := t.Session
	switch err := checkRouterAddr(session); {
	case err != nil:
		return err
	case session.LocalASN == 0 || session.RouterASN == 0:
		return fmt.Errorf("%w: AS 0 is reserved (RFC 7607)", ErrTerms)
	case !session.Families.IPv4 && !session.Families.IPv6:
		return fmt.Errorf("%w: it carries no address family", ErrTerms)
	case session.HoldTime < minHoldTime:
		return fmt.Errorf("%w: hold time %v is below %v (RFC 4271, section 4.2)", ErrTerms, session.HoldTime, minHoldTime)
	case session.Password != (inventory.SecretKey{}) && t.Password == "":
		return fmt.Errorf("%w: secret %s, key %s", ErrPasswordMissing, session.Password.Secret, session.Password.Key)
	case len(t.Password) > maxPassword:
		return fmt.Errorf("%w, this one has %d", ErrPasswordLength, len(t.Password))
	}
	return nil
}

// checkRouterAddr refuses a router's address to which no session can be set up.
func checkRouterAddr(session inventory.Session) error {
	switch addr := session.RouterAddr; {
	case !addr.IsValid():
		return fmt.Errorf("%w: the router has no address", ErrTerms)
	case addr.Is6() && addr.IsLinkLocalUnicast() && addr.Zone() == "":
		return fmt.Errorf("%w: the link-local address %v does not say on which interface; write %v%%IFACE", ErrTerms, addr, addr)
	case addr.Zone() != "" && session.Multihop > 0:
		return fmt.Errorf("%w: a link-local address is one hop away, and multihop is %d", ErrTerms, session.Multihop)
	}
	return nil
}

// index returns the sessions by their keys, the keys in their order, and an error for each session to an
// address that another has. Two routers cannot have one link-local address on one interface: this machine
// would reach one of them, and the two sessions would collide for ever.
func (c Config) index() (map[Key]SessionConfig, []Key, error) {
	var errs []error
	byKey := make(map[Key]SessionConfig, len(c.Sessions))
	onLink := map[netip.Addr]string{} // the routers of link-local addresses, which have a zone
	for _, sc := range c.Sessions {
		key := sc.key()
		other, onSameLink := onLink[key.Addr]
		switch _, twice := byKey[key]; {
		case twice:
			errs = append(errs, fmt.Errorf("%v: %w", key, ErrTwice))
		case onSameLink:
			errs = append(errs, fmt.Errorf("%v: %w: %s has that link-local address on that interface too; give one of them another address, or another interface, as in %v%%IFACE",
				key, ErrTwice, other, key.Addr.WithZone("")))
		default:
			byKey[key] = sc
			if key.Addr.Zone() != "" {
				onLink[key.Addr] = key.Router
			}
		}
	}
	return byKey, slices.SortedFunc(maps.Keys(byKey), Key.compare), errors.Join(errs...)
}
