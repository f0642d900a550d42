package bgp

import "context"

// snapshot returns the current state. Where the session's goroutine is busy for longer than ctx allows, it
// is a state without a cause.
func (s *session) snapshot(ctx context.Context, k Key) SessionState {
	answer := make(chan SessionState, 1)
	if err := s.do(ctx, func() error { answer <- s.report(ctx); return nil }); err != nil {
		return SessionState{Key: k, Cause: Connecting, Detail: "the session is busy"}
	}
	return <-answer
}

// report returns the state. It runs on the goroutine of the session.
func (s *session) report(ctx context.Context) SessionState {
	var now counts
	if s.server != nil {
		now, _ = s.server.counts(ctx)
		if accepted, err := s.server.accepted(); err == nil {
			s.state.Accepted = accepted
		}
	}
	st := s.state
	withheld := s.withheld
	if st.Up {
		st.Announced, st.HoldTime = s.out.list(), now.hold
		withheld = withheld.and(s.out.unsupported)
	}
	st.Refused, st.Refusals, st.Withheld = withheld.count, withheld.first, withheld.kinds
	st.BFD, st.Phase, st.Flaps, st.HeldUntil = s.bfd.state(s.terms.Session), string(s.phase), s.retry.losses.Flaps(), s.retry.heldUntil
	st.UpdatesSent = s.past.updatesSent + now.updatesSent
	st.UpdatesReceived = s.past.updatesReceived + now.updatesReceived
	return st
}
