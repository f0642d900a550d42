package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

// Config is all that a [Speaker] is to announce, and to whom.
type Config struct {
	// RouterID is the BGP identifier (RFC 6286): any IPv4 address that no other
	// speaker of the AS uses.
	RouterID netip.Addr
	// Restarting says that this process follows another whose routes a router may
	// still hold (RFC 4724, section 4.1). It counts for sessions when they are first
	// set; afterwards the Speaker knows by itself.
	Restarting bool
	// Within bounds what may be announced, whatever the sessions contain: the declared pools and
	// pod CIDRs. nil: unbounded. Empty, but not nil: nothing is announced.
	Within   []netip.Prefix
	Sessions []SessionConfig
}

// SessionConfig is one session, what is to be announced over it, and its password.
type SessionConfig struct {
	advertise.SessionPlan
	Password Password
}

// Key names a session: a router, and the one of its addresses that it runs to.
type Key struct {
	Router string
	Addr   netip.Addr
}

func (k Key) String() string { return k.Router + "/" + k.Addr.String() }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Router, o.Router), k.Addr.Compare(o.Addr))
}

func (c SessionConfig) key() Key {
	return Key{Router: c.Session.Router, Addr: c.Session.RouterAddr}
}

// terms are what both ends agree on when a session starts; it compares with ==.
// A change of terms needs a new session, a change of advertisements does not.
type terms struct {
	RouterID netip.Addr
	Session  inventory.Session
	Password Password
}

// terms leaves out where the password came from: the password itself counts.
func (c SessionConfig) terms(routerID netip.Addr) terms {
	s := c.Session.Terms()
	if c.Password != "" {
		s.Password = inventory.SecretKey{}
	}
	return terms{RouterID: routerID, Session: s, Password: c.Password}
}

// allow reports whether a session with these terms goes on with the next: where they differ
// in BFD alone, unless that is switched off. Routers take the end of a BFD session for a lost
// path while BGP is up (FRR 8.4 and BIRD 2.0, against RFC 5882, section 4.2), and not where the
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

// check refuses terms that could not work or would be unsafe.
func (t terms) check() error {
	s := t.Session
	switch {
	case !t.RouterID.Is4() || t.RouterID.IsUnspecified():
		return fmt.Errorf("%w: %v", ErrRouterID, t.RouterID)
	case !s.RouterAddr.IsValid():
		return fmt.Errorf("%w: the router has no address", ErrTerms)
	case s.RouterAddr.Is6() && s.RouterAddr.IsLinkLocalUnicast() && s.RouterAddr.Zone() == "":
		return fmt.Errorf("%w: the link-local address %v does not say on which interface; write %v%%IFACE", ErrTerms, s.RouterAddr, s.RouterAddr)
	case s.RouterAddr.Zone() != "" && s.Multihop > 0:
		return fmt.Errorf("%w: a link-local address is one hop away, and multihop is %d", ErrTerms, s.Multihop)
	case s.LocalASN == 0 || s.RouterASN == 0:
		return fmt.Errorf("%w: AS 0 is reserved (RFC 7607)", ErrTerms)
	case !s.Families.IPv4 && !s.Families.IPv6:
		return fmt.Errorf("%w: it carries no address family", ErrTerms)
	case s.HoldTime < minHoldTime:
		return fmt.Errorf("%w: hold time %v is below %v (RFC 4271, section 4.2)", ErrTerms, s.HoldTime, minHoldTime)
	case s.Password != (inventory.SecretKey{}) && t.Password == "":
		return fmt.Errorf("%w: secret %s, key %s", ErrPasswordMissing, s.Password.Secret, s.Password.Key)
	case len(t.Password) > maxPassword:
		return fmt.Errorf("%w, this one has %d", ErrPasswordLength, len(t.Password))
	}
	return nil
}

// index lists the sessions by their keys, and those that were given twice. Two routers cannot
// have one link-local address on one interface: this machine would reach one of them, and
// the two sessions would collide for ever.
func (c Config) index() (map[Key]SessionConfig, []Key, error) {
	var errs []error
	byKey := make(map[Key]SessionConfig, len(c.Sessions))
	onLink := map[netip.Addr]string{} // the routers of link-local addresses, which have a zone
	for _, s := range c.Sessions {
		k := s.key()
		other, onSameLink := onLink[k.Addr]
		switch _, twice := byKey[k]; {
		case twice:
			errs = append(errs, fmt.Errorf("%v: %w", k, ErrTwice))
		case onSameLink:
			errs = append(errs, fmt.Errorf("%v: %w: %s has that link-local address on that interface too; give one of them another address, or another interface, as in %v%%IFACE",
				k, ErrTwice, other, k.Addr.WithZone("")))
		default:
			byKey[k] = s
			if k.Addr.Zone() != "" {
				onLink[k.Addr] = k.Router
			}
		}
	}
	keys := make([]Key, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.compare)
	return byKey, keys, errors.Join(errs...)
}
