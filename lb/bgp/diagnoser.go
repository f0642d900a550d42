package bgp

import (
	"context"
	"time"
)

// diagnoser keeps the evidence of why a session is down, and runs its diagnoses, one at a time.
type diagnoser struct {
	log        *gobgpLog // of the last server
	attempt    symptoms  // of the last attempt
	loss       diagnosis // of the last loss; its zero value: the session was not up yet with its terms
	fellSilent bool      // the last session fell silent soon: the next may be up at this end only
	serial     int       // of the last diagnosis that was begun
	cancel     context.CancelFunc
}

// reset drops the evidence of sessions with other terms.
func (d *diagnoser) reset() { d.loss, d.fellSilent = diagnosis{}, false }

// begin starts a diagnosis, and calls onEnd with its result. A result that comes when the time is up counts
// too.
func (d *diagnoser) begin(t terms, onEnd func(serial int, found diagnosis)) {
	ctx, cancel := context.WithTimeout(context.Background(), diagnosisTime)
	d.cancel = cancel
	d.serial++
	serial, before := d.serial, d.attempt
	go func() { onEnd(serial, diagnose(ctx, t, before)) }()
}

// combine returns the diagnosis that follows from what was found now and before; ok is false where the one
// before stays. That a router accepts no connection does not refute it.
func (d *diagnoser) combine(before Cause, found diagnosis) (result diagnosis, ok bool) {
	switch {
	case found.cause == CauseNone, found.cause == ClosedByRouter && before == TTLMismatch:
		return diagnosis{}, false
	case d.loss.overrides(found.cause):
		return diagnosis{d.loss.cause, d.loss.detail + "; since then " + found.detail}, true
	}
	return found, true
}

// onAttemptTimeout ends an attempt that takes too long. Where its cause is not plain, after some attempts no
// new one is made for a while, so that probes can diagnose it.
func (s *session) onAttemptTimeout() {
	s.retry.attempts++
	found, final := causeOfAttempt(s.diagnoser.log.evidence(), s.terms)
	s.diagnoser.attempt.hung = s.server.isHung()
	s.closeServer(context.Background(), withoutNotification)
	if final || s.state.Cause == Connecting {
		s.down(found)
	}
	if final {
		s.connectAfter(found.cause)
		return
	}
	s.diagnoseOrConnect()
}

// diagnoseOrConnect diagnoses the cause where that is due, and connects otherwise.
func (s *session) diagnoseOrConnect() {
	if s.retry.diagnosisDue() {
		s.diagnose()
		return
	}
	s.tryConnect()
}

// diagnose begins a diagnosis, unless another program has the session, which a probe could take as well.
func (s *session) diagnose() {
	if s.yield(takenPause) {
		return
	}
	s.phase.move(diagnosisBegun)
	s.diagnoser.begin(s.terms, func(serial int, found diagnosis) {
		_ = s.do(context.Background(), func() error { s.onDiagnosis(serial, found); return nil })
	})
	s.timer.Reset(diagnosisTime + time.Second)
}

// onDiagnosis ends a diagnosis, unless it has ended already.
func (s *session) onDiagnosis(serial int, found diagnosis) {
	if s.phase != diagnosing || serial != s.diagnoser.serial {
		return
	}
	s.endDiagnosis()
	if s.retry.probeFirst && found.cause == OpenRefused {
		s.refuse(found.detail)
		return
	}
	s.retry.probeFirst = false
	if d, ok := s.diagnoser.combine(s.state.Cause, found); ok {
		s.down(d)
	}
	s.connectAfter(found.cause)
}

// endDiagnosis cancels the diagnosis that runs, if one does.
func (s *session) endDiagnosis() {
	if s.phase.move(diagnosisEnded) {
		s.diagnoser.cancel()
	}
}
