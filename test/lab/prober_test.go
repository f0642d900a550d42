package lab

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

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
		p.stalls.StandsStill(begin.Add(100*time.Millisecond), begin.Add(100*time.Millisecond+c.still))
		p.add(probe{at: begin, took: probeTimeout, err: fmt.Errorf("get: %w", c.err)})
		if r := p.Report(); r.Lost != c.lost || r.Stalled != c.stalled {
			t.Errorf("%v, and stood still for %v: %s", c.err, c.still, r)
		}
	}
}
