package bgp

import (
	"fmt"
	"net/netip"
	"time"
)

// SessionState is what became of one session.
type SessionState struct {
	Key
	Up        bool
	Since     time.Time      // it has been up or down
	Cause     Cause          // it is likely down for this
	Detail    string         // the cause in a sentence
	Announced []netip.Prefix // in the adj-RIB-out: announced to the router and not withdrawn since; sorted, read only
	Refused   int            // advertisements that were planned and are withheld
	Refusals  []Refusal      // the first of them
	Accepted  int            // routes of the router's that were taken
	BFD       string         // up, down or init; empty: off
	HoldTime  time.Duration  // that both ends count by: the lower of theirs and ours; zero: none, or the session is down
	Phase     string         // what the session is doing: paused, refused, connecting, unwatched, unconfirmed, established or diagnosing
	Losses    uint64         // times that the session was up and went down
	Flaps     int            // losses in a row, each less than bfd.Steady after the session came up; above 1 it waits before it connects again
	HeldUntil time.Time      // it is left down until then; zero: it is not
	// UpdatesSent and UpdatesReceived count UPDATE messages since the session was set.
	UpdatesSent, UpdatesReceived uint64
}

func (s SessionState) String() string {
	if s.Up {
		return fmt.Sprintf("%v: up since %s, %d announced, %d accepted", s.Key, s.Since.Format(time.RFC3339), len(s.Announced), s.Accepted)
	}
	return fmt.Sprintf("%v: down since %s, %s: %s", s.Key, s.Since.Format(time.RFC3339), s.Cause, s.Detail)
}
