package bgp

import (
	"errors"
	"fmt"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
)

// Cause names why a session is down. It is a metric label and has a row in
// docs/reference/reasons.md.
type Cause string

// Why a session is down.
const (
	CauseNone        Cause = ""                // it is up
	Connecting       Cause = "Connecting"      // the first attempts have not ended yet
	Misconfigured    Cause = "Misconfigured"   // its terms were refused before any attempt
	PasswordMissing  Cause = "PasswordMissing" // the Secret has no password for it
	Unreachable      Cause = "Unreachable"     // there is no way to the router's address
	NoAnswer         Cause = "NoAnswer"        // packets get no answer
	Refused          Cause = "Refused"         // nothing listens on the router's port
	ClosedByRouter   Cause = "ClosedByRouter"  // the router closes without a word
	TTLMismatch      Cause = "TTLMismatch"     // one end has TTL security, the other has not
	PasswordMismatch Cause = "PasswordMismatch"
	ASNMismatch      Cause = "ASNMismatch"
	HoldTimerExpired Cause = "HoldTimerExpired" // the router fell silent
	PrefixLimit      Cause = "PrefixLimit"      // one end sent more prefixes than the other takes
	RouterShutdown   Cause = "RouterShutdown"   // somebody shut the session down on the router
	RouterRefused    Cause = "RouterRefused"    // a NOTIFICATION of the router's, of another kind
	OpenRefused      Cause = "OpenRefused"      // this machine does not take what the router says of itself
	MalformedMessage Cause = "MalformedMessage" // the router sent what is not BGP
	PathDown         Cause = "PathDown"         // BFD lost the router
	Flapping         Cause = "Flapping"         // it was lost again and again, and waits
	SessionTaken     Cause = "SessionTaken"     // another speaker has it, from the same address
)

// verdict is a cause, and the same in a sentence.
type verdict struct {
	cause  Cause
	detail string
}

// outlives reports whether a session is still down for v when all that is found is
// that the router takes no connection: one that was shut down at the router, or
// announced too much, is not let in again.
func (v verdict) outlives(found Cause) bool {
	return (v.cause == PrefixLimit || v.cause == RouterShutdown) && (found == Refused || found == ClosedByRouter)
}

// causeOfLoss says why a session that was up went down.
func causeOfLoss(n noted, t terms) (Cause, string) {
	switch {
	case n.holdExpired:
		return HoldTimerExpired, "the router was silent for the hold time"
	case n.received != nil:
		return causeOfReceived(*n.received, t)
	case n.sent != nil:
		return causeOfSent(*n.sent)
	}
	return ClosedByRouter, "the router closed the connection, or the way to it was lost"
}

// causeOfPrefixLimit says why a session was closed whose router sent too much.
func causeOfPrefixLimit() (Cause, string) {
	return PrefixLimit, fmt.Sprintf("the router sent more than %d prefixes of one family", maxReceived)
}

// causeOfAttempt says what is known of an attempt that took too long, and whether that
// is all there is to know. What this machine refused in the router's OPEN a probe reads in it.
func causeOfAttempt(n noted, t terms) (c Cause, detail string, sure bool) {
	if n.received != nil {
		c, detail = causeOfReceived(*n.received, t)
		return c, detail, true
	}
	if n.sent != nil {
		c, detail = causeOfSent(*n.sent)
		if c == ASNMismatch || c == OpenRefused || c == MalformedMessage {
			return c, detail, c == ASNMismatch
		}
	}
	if n.dial != "" {
		return Connecting, n.dial, false
	}
	return Connecting, "the router has not answered yet", false
}

const ceaseBFDDown = 10 // RFC 9384

// causeOfReceived explains a NOTIFICATION of the router's (RFC 4271, section 6; RFC 4486).
func causeOfReceived(n notification, t terms) (Cause, string) {
	detail := "the router says " + n.String()
	switch {
	case n.isCollision():
		return SessionTaken, detail + collisionDetail
	case n.code == gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR && n.subcode == gobgp.BGP_ERROR_SUB_BAD_PEER_AS:
		return ASNMismatch, detail + refusedByRouter(n, t)
	case n.code == gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR:
		return RouterRefused, detail + refusedByRouter(n, t)
	case n.code == gobgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return HoldTimerExpired, detail + ": it got nothing from this machine for the hold time"
	case n.code == gobgp.BGP_ERROR_CEASE && n.subcode == ceaseBFDDown:
		return PathDown, "the router says that its BFD lost this machine"
	case n.code == gobgp.BGP_ERROR_CEASE && n.subcode == gobgp.BGP_ERROR_SUB_MAXIMUM_NUMBER_OF_PREFIXES_REACHED:
		return PrefixLimit, detail + ": this machine announces more than it takes"
	case n.code == gobgp.BGP_ERROR_CEASE && (n.subcode == gobgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN ||
		n.subcode == gobgp.BGP_ERROR_SUB_ADMINISTRATIVE_RESET || n.subcode == gobgp.BGP_ERROR_SUB_PEER_DECONFIGURED):
		return RouterShutdown, detail
	}
	return RouterRefused, detail
}

// causeOfSent explains a NOTIFICATION of ours.
func causeOfSent(n notification) (Cause, string) {
	switch {
	case n.code == gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR && n.subcode == gobgp.BGP_ERROR_SUB_BAD_PEER_AS:
		return ASNMismatch, "the router is in another AS than the inventory says"
	case n.code == gobgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
		return HoldTimerExpired, "the router was silent for the hold time"
	case n.code == gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR:
		return OpenRefused, "this machine does not take the router's OPEN, and told it " + n.String()
	}
	return MalformedMessage, "this machine closed the session with " + n.String()
}

// causeOfTerms explains terms that were not even tried.
func causeOfTerms(err error) (Cause, string) {
	if errors.Is(err, ErrPasswordMissing) {
		return PasswordMissing, err.Error()
	}
	return Misconfigured, err.Error()
}

// causeOfStart explains that GoBGP could not start with terms that had passed check. For
// a router with a link-local address the interface must be there, and have one too.
func causeOfStart(s inventory.Session) Cause {
	if s.RouterAddr.Zone() != "" {
		return Unreachable
	}
	return Misconfigured
}
