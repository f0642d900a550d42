package lab

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyWhatAMachineStoodStillCounts(t *testing.T) {
	var s stalls
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	s.note(at(95), at(400))
	s.note(at(995), at(1200))
	for _, c := range []struct{ from, took, want int }{
		{0, 50, 0}, {0, 200, 100}, {200, 100, 100}, {0, 2000, 500}, {300, 800, 200}, {500, 100, 0},
	} {
		if got := s.within(at(c.from), time.Duration(c.took)*time.Millisecond); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("of %d ms from %d on the machine stood still for %v", c.took, c.from, got)
		}
	}
}

func TestATickerThatIsInTimeNotesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stalls
		ctx, stop := context.WithCancel(t.Context())
		go s.watch(ctx)
		begun := time.Now()
		time.Sleep(time.Minute)
		stop()
		synctest.Wait()
		if still := s.within(begun, time.Minute); still > 0 || len(s.all) > 0 {
			t.Errorf("%v in %d stalls", still, len(s.all))
		}
	})
}

func TestWhatWasGivenUpWhileAMachineStoodStillIsNotLost(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		still         time.Duration
		err           error
		lost, stalled int
	}{
		{0, context.DeadlineExceeded, 1, 0},
		{200 * time.Millisecond, context.DeadlineExceeded, 1, 0},
		{400 * time.Millisecond, context.DeadlineExceeded, 0, 1},
		{400 * time.Millisecond, syscall.ECONNREFUSED, 1, 0},
	} {
		var p Prober
		p.stalls.note(begin.Add(100*time.Millisecond-stallTick), begin.Add(100*time.Millisecond+c.still))
		p.add(probe{at: begin, took: probeTimeout, err: fmt.Errorf("get: %w", c.err)})
		if r := p.Report(); r.Lost != c.lost || r.Stalled != c.stalled {
			t.Errorf("%v, and stood still for %v: %s", c.err, c.still, r)
		}
	}
}
