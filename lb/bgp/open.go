package bgp

import (
	"fmt"
	"net/netip"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
)

// openErrors explains each error in an OPEN, by its subcode (RFC 4271, section 6.2; RFC 5492, section 5; RFC 9234, section 4.2),
// with its remedy. Withdrawn and later ones are reported by their numbers alone.
var openErrors = map[uint8]func(terms) string{
	0: func(terms) string {
		return "it does not take something in this machine's OPEN, and its log may say what"
	},
	gobgp.BGP_ERROR_SUB_UNSUPPORTED_VERSION_NUMBER: func(terms) string {
		return "it does not speak BGP version 4"
	},
	gobgp.BGP_ERROR_SUB_BAD_PEER_AS: func(t terms) string {
		return fmt.Sprintf("it expects this machine in another AS than %v", t.Session.LocalASN)
	},
	gobgp.BGP_ERROR_SUB_BAD_BGP_IDENTIFIER: func(t terms) string {
		return fmt.Sprintf("this machine's router ID is %v: another neighbour of the router, or the router itself, may have the same, or it takes it for no address of a host", t.RouterID)
	},
	gobgp.BGP_ERROR_SUB_UNSUPPORTED_OPTIONAL_PARAMETER: func(terms) string {
		return "it takes no capabilities (RFC 5492), without which there is no IPv6 and no AS number above 65535"
	},
	subAuthenticationFailure: func(terms) string {
		return "it wants authentication in the OPEN, which RFC 4271 has withdrawn: a password is one of TCP (RFC 2385)"
	},
	gobgp.BGP_ERROR_SUB_UNACCEPTABLE_HOLD_TIME: func(t terms) string {
		return fmt.Sprintf("it does not take the hold time of %v: it may have a least one, which holdTime of the inventory is to reach", t.Session.HoldTime)
	},
	gobgp.BGP_ERROR_SUB_UNSUPPORTED_CAPABILITY: func(t terms) string {
		return "it insists on a capability that this machine does not offer, or refuses one that it does; this machine offers " + capabilityNames(offered(t))
	},
	subRoleMismatch: func(terms) string {
		return "it insists on a role (RFC 9234), which this machine does not offer: have it be without strict mode towards this neighbour"
	},
}

// Subcodes that GoBGP has no names for.
const (
	subAuthenticationFailure = 5  // of RFC 1771
	subRoleMismatch          = 11 // RFC 9234
)

// refusedByRouter explains a NOTIFICATION of the router's about this machine's OPEN.
func refusedByRouter(n notification, terms terms) string {
	explain, known := openErrors[n.subcode]
	if !known {
		return ""
	}
	if names := n.capabilities(); names != "" {
		return ": " + explain(terms) + "; the router names " + names
	}
	return ": " + explain(terms)
}

// extended marks an OPEN whose optional parameters have lengths of two octets: it is the type of what seems to be the first of
// them. The octet before it, which was their length, is to be 255, and has no meaning (RFC 9072, section 2).
const extended = 255

// refusedInOpen explains why GoBGP or this machine refuses a router's OPEN; empty: neither does. body is the OPEN without its
// header.
func refusedInOpen(body []byte, terms terms) string {
	const fixed = 10 // octets of it (RFC 4271, section 4.2)
	if len(body) < fixed {
		return fmt.Sprintf("the router's OPEN has %d octets, want 10 at least", len(body))
	}
	version, hold := body[0], time.Duration(body[3])<<8*time.Second+time.Duration(body[4])*time.Second
	id := netip.AddrFrom4([4]byte(body[5:9]))
	switch {
	case version != 4:
		return fmt.Sprintf("the router speaks BGP version %d, this machine version 4", version)
	case id.IsUnspecified():
		return "the router has the router ID 0.0.0.0, which no speaker may have (RFC 6286): give it one"
	case id == terms.RouterID && terms.Session.IBGP():
		return fmt.Sprintf("the router has the router ID %v, which is this machine's: within an AS each needs its own (RFC 6286)", id)
	case hold == 0 && terms.Session.BFD == (inventory.BFDProfile{}):
		return noHoldTime
	case hold > 0 && hold < 3*time.Second:
		return fmt.Sprintf("the router's hold time is %v, the least is 3s, or 0 for none (RFC 4271, section 4.2)", hold)
	case body[9] != 0 && len(body) > fixed && body[10] == extended:
		return "the router's OPEN has extended optional parameters (RFC 9072), which this machine cannot read: they are sent where capabilities exceed 255 octets. " +
			"Have the router offer this neighbour fewer address families, without additional paths and ORF"
	}
	if err := new(gobgp.BGPOpen).DecodeFromBytes(body); err != nil {
		return "the capabilities in the router's OPEN cannot be read: " + printable(err.Error())
	}
	if asnOf(body) == 0 {
		return "the router says that it is in AS 0, which nobody is (RFC 7607)"
	}
	return ""
}
