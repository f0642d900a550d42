package still

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// Tick is how often the machine is looked at. A stall may be longer than it is told by that, on either side.
	Tick = 5 * time.Millisecond
	// slack is how late a look is at least: less is every scheduler's.
	slack = 50 * time.Millisecond
)

// Wait is a time in which somebody waited for a processor.
type Wait struct {
	Who  string // "the machine", or a program and its process
	From time.Time
	Took time.Duration
}

const machine = "the machine"

// Watch notes who waits. Its zero value watches the machine alone.
type Watch struct {
	programs []string

	mu    sync.Mutex
	waits []Wait
}

// Begin watches the machine until ctx ends, and programs that are called so (comm of proc(5), at most 15 bytes).
func Begin(ctx context.Context, programs ...string) *Watch {
	w := &Watch{programs: programs}
	go w.Run(ctx)
	return w
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if len(w.programs) > 0 {
		go w.follow(ctx)
	}
	last := time.Now()
	for ctx.Err() == nil {
		time.Sleep(Tick)
		now := time.Now()
		if now.Sub(last) > Tick+slack {
			w.StandsStill(last.Add(Tick), now)
		}
		last = now
	}
}

// StandsStill notes that the machine stood still from one time to another.
func (w *Watch) StandsStill(from, to time.Time) { w.note(Wait{machine, from, to.Sub(from)}) }

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

// Stood tells how often and for how long the machine stood still in a span of time, and how long the longest stall was
// that reached into it.
func (w *Watch) Stood(from, to time.Time) (times int, sum, longest time.Duration) {
	for _, one := range w.between(from, to) {
		if one.Who != machine {
			continue
		}
		begin, end := one.From, one.From.Add(one.Took)
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		times, sum, longest = times+1, sum+end.Sub(begin), max(longest, one.Took)
	}
	return times, sum, longest
}

// Within is for how long the machine stood still in a span of time.
func (w *Watch) Within(from, to time.Time) time.Duration {
	_, sum, _ := w.Stood(from, to)
	return sum
}

// Longest is how long the longest stall was of those that reached into a span of time.
func (w *Watch) Longest(from, to time.Time) time.Duration {
	_, _, longest := w.Stood(from, to)
	return longest
}

// Starved are the waits of a time that a test may have failed for, the longest first: those of at least a tenth of a
// second, a third of the shortest time in which a test wants something done (a failure that BFD detects, in 300 ms).
func (w *Watch) Starved(from, to time.Time) []Wait {
	all := slices.DeleteFunc(w.between(from, to), func(one Wait) bool { return one.Took < tooLong })
	slices.SortStableFunc(all, func(a, b Wait) int { return int(b.Took - a.Took) })
	return all
}

const tooLong = 100 * time.Millisecond
