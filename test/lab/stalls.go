package lab

import (
	"context"
	"sync"
	"time"
)

// stalls are the times at which this machine itself stood still: a ticker of this process was
// late. What takes long for that alone says nothing about a network.
type stalls struct {
	mu  sync.Mutex
	all []stall
}

// Stalls are the times at which this machine itself stood still, as the probers count them.
type Stalls struct{ noted stalls }

// WatchStalls begins to note them, until ctx ends.
func WatchStalls(ctx context.Context) *Stalls {
	s := &Stalls{}
	go s.noted.watch(ctx)
	return s
}

// Within is for how long the machine stood still between two points in time.
func (s *Stalls) Within(from, to time.Time) time.Duration { return s.noted.within(from, to.Sub(from)) }

type stall struct{ from, to time.Time }

const (
	stallTick = 5 * time.Millisecond
	// stallLeast is how late the ticker is at least: less is every scheduler's.
	stallLeast = 50 * time.Millisecond
)

// watch notes stalls until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			if now.Sub(last) > stallLeast {
				s.note(last, now)
			}
			last = now
		}
	}
}

func (s *stalls) note(from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, stall{from.Add(stallTick), to})
}

// within is for how long the machine stood still in a span of time.
func (s *stalls) within(from time.Time, took time.Duration) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := from.Add(took)
	for _, one := range s.all {
		begin, end := one.from, one.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}

// longest is how long the longest stall was of those that fell into a span of time, even in part.
func (s *stalls) longest(from, to time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.from.Before(to) && one.to.After(from) {
			longest = max(longest, one.to.Sub(one.from))
		}
	}
	return longest
}
