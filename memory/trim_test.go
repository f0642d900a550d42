package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestWhatABurstNeededIsReturned(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody but Trim collects
	burst := make([][]byte, 64)
	for i := range burst {
		burst[i] = make([]byte, 1<<20)
	}
	runtime.KeepAlive(burst)
	if got := look().idle; got < 60<<20 {
		t.Fatalf("%d bytes are idle, and should be 64 MB", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go Trim(ctx)
	for limit := time.Now().Add(10 * time.Second); look().idle > spare; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d bytes are still idle", look().idle)
		}
	}
}

func TestABusyProgramIsLeftAlone(t *testing.T) {
	idle := heap{idle: spare + 1}
	var w watcher
	var times []int
	for i := range 2*patience + 1 {
		idle.allocated += calm
		if w.due(idle) {
			times = append(times, i)
		}
	}
	if len(times) != 2 || times[0] != patience-1 || times[1] != 2*patience-1 {
		t.Errorf("it was interrupted at %v, and should be each %d looks", times, patience)
	}
	if !w.due(idle) {
		t.Error("at rest, it is not trimmed")
	}
	if w.due(heap{allocated: idle.allocated, idle: spare}) {
		t.Error("it is trimmed for nothing")
	}
}
