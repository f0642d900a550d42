package bgp

import "plinth.dev/plinth/lb"

// Reason is the reason why an advertisement is withheld, of the same type as the planner's.
type Reason = lb.Reason

// Reasons for which a session withholds an advertisement. Each has a row in docs/reference/reasons.md.
const (
	PrefixInvalid       Reason = "PrefixInvalid"       // no session may announce it: a default route, multicast, host bits
	CoversSessionEnd    Reason = "CoversSessionEnd"    // an address of a session's end is in it
	OutsidePoolsAndPods Reason = "OutsidePoolsAndPods" // it is in no pool, and no pod CIDR
	NextHopUnusable     Reason = "NextHopUnusable"     // the router could not reach its next hop
	TooManyPrefixes     Reason = "TooManyPrefixes"     // the session already announces as many as it may
)

// Reasons for which a session withholds what the router's capabilities exclude. Each has a row in
// docs/reference/reasons.md.
const (
	FamilyNotNegotiated  Reason = "FamilyNotNegotiated"  // the router does not accept the address family (RFC 4760)
	NextHopNotNegotiated Reason = "NextHopNotNegotiated" // it accepts no IPv4 with a next hop of IPv6 (RFC 8950)
)
