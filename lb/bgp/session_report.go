package bgp

import (
	"context"
	"net/netip"
)

// keepCounts adds up what the server counted before it goes.
func (s *session) keepCounts(ctx context.Context) {
	c, err := s.in.counts(ctx)
	if err != nil {
		return
	}
	s.base.updatesSent += c.updatesSent
	s.base.updatesReceived += c.updatesReceived
}

// snapshot is the state as it is now. Where the session's goroutine is busy for
// longer than ctx allows, it is a state without a cause.
func (s *session) snapshot(ctx context.Context, k Key) SessionState {
	st := SessionState{Key: k, Cause: Connecting, Detail: "the session is busy"}
	answer := make(chan SessionState, 1)
	if err := s.do(ctx, func() error { answer <- s.report(ctx); return nil }); err == nil {
		st = <-answer
	}
	return st
}

func (s *session) report(ctx context.Context) SessionState {
	var c counts
	if s.in != nil {
		if now, err := s.in.counts(ctx); err == nil {
			c = now
		}
		if n, err := s.in.accepted(); err == nil {
			s.state.Accepted = n
		}
		if s.stale && s.state.Up {
			s.state.Announced, s.stale = s.announced(), false
		}
	}
	st := s.state
	kept := s.kept
	if st.Up {
		st.HoldTime = c.hold
		kept = kept.and(s.untaken)
	}
	st.Refused, st.Refusals = kept.count, kept.first
	st.BFD, st.Phase, st.Flaps, st.HeldUntil = s.bfdState(), string(s.phase), s.damping.Flaps(), s.heldUntil
	st.UpdatesSent = s.base.updatesSent + c.updatesSent
	st.UpdatesReceived = s.base.updatesReceived + c.updatesReceived
	return st
}

// announced lists what GoBGP has announced to the router, or is about to: all that the
// server was given, which is what the router takes. To ask GoBGP for its
// adj-RIB-out would take a third of a second for ten thousand routes, in which it
// does nothing else; a test compares the two.
func (s *session) announced() []netip.Prefix {
	ps := make([]netip.Prefix, 0, s.have.Len())
	for ad := range s.have.All() {
		ps = append(ps, ad.Prefix)
	}
	return ps
}
