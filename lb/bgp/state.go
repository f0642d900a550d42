package bgp

import (
	"fmt"
	"net/netip"
	"time"
)

// SessionState is the state of one session.
type SessionState struct {
	Key
	Up        bool
	Since     time.Time      // when it last went up or down
	Cause     Cause          // the likely cause of its being down
	Detail    string         // the cause in a sentence
	Announced []netip.Prefix // in the adj-RIB-out: announced to the router and not withdrawn since; sorted, read only
	Refused   int            // advertisements that were planned and are withheld
	Refusals  []Refusal      // the first of them
	Withheld  []Withheld     // the kinds of all of them; read only
	Accepted  int            // routes of the router's that were accepted
	BFD       string         // up, down or init; empty: off
	HoldTime  time.Duration  // negotiated: the lower of both ends'; zero: none, or the session is down
	Phase     string         // paused, refused, connecting, unwatched, unconfirmed, established or diagnosing
	Losses    uint64         // times that the session was up and went down
	Flaps     int            // losses in a row, each less than bfd.Steady after the session came up; above 1 it waits before it connects again
	HeldUntil time.Time      // the end of a pause in which it stays down; zero: it is not paused
	// UpdatesSent and UpdatesReceived count UPDATE messages since the session was set.
	UpdatesSent, UpdatesReceived uint64
}

// String returns the state in one line.
func (s SessionState) String() string {
	if s.Up {
		return fmt.Sprintf("%v: up since %s, %d announced, %d accepted", s.Key, s.Since.Format(time.RFC3339), len(s.Announced), s.Accepted)
	}
	return fmt.Sprintf("%v: down since %s, %s: %s", s.Key, s.Since.Format(time.RFC3339), s.Cause, s.Detail)
}
