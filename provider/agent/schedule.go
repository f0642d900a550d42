package agent

import "time"

const (
	retryFirst = time.Second
	retryLast  = 15 * time.Second
)

// schedule says when the next pass is due if no event asks for one before.
type schedule struct {
	timer *time.Timer
	due   time.Time     // when the timer fires; zero: it is not set
	retry time.Duration // after the last failure; 0: the last pass succeeded
}

// wakeIn schedules a pass after a duration, unless one is due sooner; 0: none.
func (s *schedule) wakeIn(duration time.Duration) {
	at := time.Now().Add(duration)
	if duration <= 0 || !s.due.IsZero() && s.due.Before(at) {
		return
	}
	s.due = at
	s.timer.Reset(duration)
}

// fired notes that the timer has fired.
func (s *schedule) fired() { s.due = time.Time{} }

// retryAfter schedules a pass after one that failed, each time after a longer while.
func (s *schedule) retryAfter(err error) {
	if err == nil {
		s.retry = 0
		return
	}
	s.retry = min(max(2*s.retry, retryFirst), retryLast)
	s.wakeIn(s.retry)
}
