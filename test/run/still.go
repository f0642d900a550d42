package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A machine that stands still for tick + slack has kept a process that had nothing to do but wake up from doing so.
const (
	tick  = 5 * time.Millisecond
	slack = 50 * time.Millisecond
)

// gap is a time in which this machine, or this process on it, stood still.
type gap struct {
	from time.Time
	took time.Duration
}

// watch notes when the machine stands still.
type watch struct {
	mu   sync.Mutex
	gaps []gap
}

// run ticks until ctx ends.
func (w *watch) run(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		time.Sleep(tick)
		now := time.Now()
		if took := now.Sub(last); took > tick+slack {
			w.mu.Lock()
			w.gaps = append(w.gaps, gap{last, took})
			w.mu.Unlock()
		}
		last = now
	}
}

// stood is for how long the machine stood still in a time, in all.
func (w *watch) stood(from, to time.Time) time.Duration {
	_, sum, _ := w.count(from, to)
	return sum
}

// count tells how often and for how long the machine stood still in a time.
func (w *watch) count(from, to time.Time) (times int, sum, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.gaps {
		if g.from.Before(to) && g.from.Add(g.took).After(from) {
			times, sum, longest = times+1, sum+g.took, max(longest, g.took)
		}
	}
	return times, sum, longest
}

// busy is how long all processors have worked, and how long there have been processors, since the machine was booted,
// in its own units (proc(5), /proc/stat).
func busy() (worked, all uint64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil || i > 8 { // user and nice have guests in them
			continue
		}
		all += n
		if i != 4 && i != 5 { // idle, and waiting for a disk
			worked += n
		}
	}
	return worked, all
}
