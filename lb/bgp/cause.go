package bgp

import (
	"cmp"
	"errors"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
)

// diagnosis is a cause, and the same in a sentence.
type diagnosis struct {
	cause  Cause
	detail string
}

// overrides reports whether d is still why a session is down where all that is found now is
// that the router accepts no connection: one that was shut down at the router, or
// announced too much, is not accepted again.
func (d diagnosis) overrides(found Cause) bool {
	return (d.cause == PrefixLimit || d.cause == RouterShutdown) && (found == Refused || found == ClosedByRouter)
}

// holdExpired is the diagnosis where the hold timer of this machine expired.
var holdExpired = diagnosis{HoldTimerExpired, "the router was silent for the hold time"}

// causeOfLoss explains why a session that was up went down.
func causeOfLoss(seen evidence, t terms) diagnosis {
	switch {
	case seen.holdExpired:
		return holdExpired
	case seen.received != nil:
		return causeOfReceived(*seen.received, t)
	case seen.sent != nil:
		return causeOfSent(*seen.sent)
	}
	return diagnosis{ClosedByRouter, "the router closed the connection, or the way to it was lost"}
}

// causeOfAttempt explains an attempt that took too long; final is false where probes may find out more.
// Only a probe reads what this machine refused in the router's OPEN.
func causeOfAttempt(seen evidence, t terms) (found diagnosis, final bool) {
	if seen.received != nil {
		return causeOfReceived(*seen.received, t), true
	}
	if seen.sent != nil {
		found = causeOfSent(*seen.sent)
		if found.cause == ASNMismatch || found.cause == OpenRefused || found.cause == MalformedMessage {
			return found, found.cause == ASNMismatch
		}
	}
	return diagnosis{Connecting, cmp.Or(seen.dial, "the router has not answered yet")}, false
}

// ceaseBFDDown is the subcode "BFD Down" of a Cease (RFC 9384).
const ceaseBFDDown = 10

// collisionDetail explains that a router refuses a connection where no other program's is seen.
const collisionDetail = ": it has another session with this machine's address; no other program's connection is seen here, " +
	"so it is one from behind an address translation, another machine's with the same address, or this machine's own from before a crash until its hold time is over"

// isCollision reports whether the router refused a connection because it has another from the
// same address (RFC 4271, section 6.8; RFC 4486).
func (n notification) isCollision() bool {
	return n.code == gobgp.BGP_ERROR_CEASE && n.subcode == gobgp.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION
}

// causeOfReceived explains a NOTIFICATION of the router's (RFC 4271, section 6).
func causeOfReceived(received notification, t terms) diagnosis {
	detail := "the router says " + received.String()
	switch received.code {
	case gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR:
		detail += refusedByRouter(received, t)
		if received.subcode == gobgp.BGP_ERROR_SUB_BAD_PEER_AS {
			return diagnosis{ASNMismatch, detail}
		}
	case gobgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return diagnosis{HoldTimerExpired, detail + ": it got nothing from this machine for the hold time"}
	case gobgp.BGP_ERROR_CEASE:
		return causeOfCease(received.subcode, detail)
	}
	return diagnosis{RouterRefused, detail}
}

// causeOfCease explains a Cease of the router's (RFC 4486).
func causeOfCease(subcode uint8, detail string) diagnosis {
	switch subcode {
	case gobgp.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION:
		return diagnosis{SessionTaken, detail + collisionDetail}
	case ceaseBFDDown:
		return diagnosis{PathDown, "the router says that its BFD lost this machine"}
	case gobgp.BGP_ERROR_SUB_MAXIMUM_NUMBER_OF_PREFIXES_REACHED:
		return diagnosis{PrefixLimit, detail + ": this machine announces more than it takes"}
	case gobgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN, gobgp.BGP_ERROR_SUB_ADMINISTRATIVE_RESET, gobgp.BGP_ERROR_SUB_PEER_DECONFIGURED:
		return diagnosis{RouterShutdown, detail}
	}
	return diagnosis{RouterRefused, detail}
}

// causeOfSent explains a NOTIFICATION of this machine's.
func causeOfSent(sent notification) diagnosis {
	switch {
	case sent.code == gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR && sent.subcode == gobgp.BGP_ERROR_SUB_BAD_PEER_AS:
		return diagnosis{ASNMismatch, "the router is in another AS than the inventory says"}
	case sent.code == gobgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return holdExpired
	case sent.code == gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR:
		return diagnosis{OpenRefused, "this machine does not take the router's OPEN, and told it " + sent.String()}
	}
	return diagnosis{MalformedMessage, "this machine closed the session with " + sent.String()}
}

// causeOfTerms explains terms that were refused.
func causeOfTerms(err error) diagnosis {
	if errors.Is(err, ErrPasswordMissing) {
		return diagnosis{PasswordMissing, err.Error()}
	}
	return diagnosis{Misconfigured, err.Error()}
}

// causeOfStart explains that GoBGP could not start with valid terms. For a router with a link-local
// address the interface must be there, and have one too.
func causeOfStart(s inventory.Session) Cause {
	if s.RouterAddr.Zone() != "" {
		return Unreachable
	}
	return Misconfigured
}
