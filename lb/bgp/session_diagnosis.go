package bgp

import (
	"context"
	"math/bits"
	"time"
)

// onAttemptTimeout ends an attempt that takes too long. Where its cause is not plain,
// after some attempts no new one is made for a while, so that probes can look for it.
func (s *session) onAttemptTimeout() {
	s.attempts++
	c, detail, sure := causeOfAttempt(s.notes.read(), s.terms)
	s.attempt.hung = s.isHung()
	s.closeServer(context.Background(), quietly)
	if sure || s.state.Cause == Connecting {
		s.down(c, detail)
	}
	if sure {
		s.connectAfter(c)
		return
	}
	s.diagnoseOrConnect()
}

// diagnosisDue reports whether to diagnose after so many attempts: 1, 2, 4, 8, 16, 32,
// 48... What is wrong may change, so in the end it is diagnosed every four minutes.
func diagnosisDue(attempts int) bool {
	return bits.OnesCount(uint(attempts)) == 1 || attempts%16 == 0
}

// diagnoseOrConnect looks for the cause, unless that was done lately.
func (s *session) diagnoseOrConnect() {
	if !diagnosisDue(s.attempts) {
		s.tryConnect()
		return
	}
	s.diagnose()
}

// diagnose looks for the cause, unless another program has the session.
func (s *session) diagnose() {
	if s.yield(takenPause) {
		return // a probe could take the session as well
	}
	ctx, cancel := context.WithTimeout(context.Background(), diagnosisTime)
	s.move(diagnosisBegun)
	s.cancelDiagnosis = cancel
	s.diagnoses++
	t, before, diagnosis := s.terms, s.attempt, s.diagnoses
	go func() {
		c, detail := diagnose(ctx, t, before)
		// A result that comes when the time is up counts too.
		_ = s.do(context.Background(), func() error { s.onDiagnosis(diagnosis, c, detail); return nil })
	}()
	s.timer.Reset(diagnosisTime + time.Second)
}

// onDiagnosis ends a diagnosis, unless it has ended already. One without a result
// leaves the cause as it is.
func (s *session) onDiagnosis(diagnosis int, c Cause, detail string) {
	if s.phase != diagnosing || diagnosis != s.diagnoses {
		return
	}
	s.stopDiagnosis()
	if s.looksFirst && c == OpenRefused {
		s.refuse(detail)
		return
	}
	s.looksFirst = false
	// That the router takes no connection does not refute what was found before.
	switch {
	case c == CauseNone, c == ClosedByRouter && s.state.Cause == TTLMismatch:
	case s.loss.outlives(c):
		s.down(s.loss.cause, s.loss.detail+"; since then "+detail)
	default:
		s.down(c, detail)
	}
	s.connectAfter(c)
}

// isHung reports whether the one connection of an attempt still waits for an OPEN.
func (s *session) isHung() bool {
	c, err := s.in.counts(context.Background())
	return err == nil && c.opensSent == 1 && c.opensReceived == 0
}

func (s *session) stopDiagnosis() {
	if s.move(diagnosisEnded) {
		s.cancelDiagnosis()
	}
}
