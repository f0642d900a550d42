package still

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A machine that stands still for tick + slack has kept a process that had nothing to do but wake up from doing so.
const (
	tick  = 5 * time.Millisecond
	slack = 50 * time.Millisecond
)

// Wait is a time in which somebody waited for a processor.
type Wait struct {
	Who  string // "the machine", or a program and its process
	From time.Time
	Took time.Duration
}

const machine = "the machine"

// Watch notes who waits. The machine is watched always, programs by their names.
type Watch struct {
	programs []string

	mu    sync.Mutex
	waits []Wait
}

// New returns a watch for the machine, and for programs that are called so (comm of proc(5), at most 15 bytes).
func New(programs ...string) *Watch { return &Watch{programs: programs} }

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if len(w.programs) > 0 {
		go w.follow(ctx)
	}
	last := time.Now()
	for ctx.Err() == nil {
		time.Sleep(tick)
		now := time.Now()
		if took := now.Sub(last); took > tick+slack {
			w.note(Wait{machine, last, took})
		}
		last = now
	}
}

func (w *Watch) note(waits ...Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = append(w.waits, waits...)
}

// between are the waits that reach into a time.
func (w *Watch) between(from, to time.Time) (all []Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.waits {
		if one.From.Before(to) && one.From.Add(one.Took).After(from) {
			all = append(all, one)
		}
	}
	return all
}

// Stood tells how often and for how long the machine stood still in a time.
func (w *Watch) Stood(from, to time.Time) (times int, sum, longest time.Duration) {
	for _, one := range w.between(from, to) {
		if one.Who == machine {
			times, sum, longest = times+1, sum+one.Took, max(longest, one.Took)
		}
	}
	return times, sum, longest
}

// Starved are the waits of a time that a test may have failed for, the longest first: those of at least a tenth of a
// second, a third of the shortest time in which a test wants something done (a failure that BFD detects, in 300 ms).
func (w *Watch) Starved(from, to time.Time) []Wait {
	all := slices.DeleteFunc(w.between(from, to), func(one Wait) bool { return one.Took < tooLong })
	slices.SortStableFunc(all, func(a, b Wait) int { return int(b.Took - a.Took) })
	return all
}

const tooLong = 100 * time.Millisecond
