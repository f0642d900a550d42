package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestWhatABurstNeededIsReturned(t *testing.T) {
	for name, during := range map[string]func(){
		"that nobody collected":                 func() {},
		"that was in use when it was collected": runtime.GC,
	} {
		t.Run(name, func(t *testing.T) {
			debug.FreeOSMemory()
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody but Trim collects from here on
			before := held()
			burst := make([][]byte, 64)
			for i := range burst {
				burst[i] = make([]byte, 1<<20)
			}
			during()
			runtime.KeepAlive(burst)
			if got := held() - before; got < 60<<20 {
				t.Fatalf("%d bytes are held, and should be 64 MB", got)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go Trim(ctx)
			for limit := time.Now().Add(10 * time.Second); held() > before+spare; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("%d bytes are still held", held()-before)
				}
			}
		})
	}
}

// held returns how much memory the heap holds, in use or not, in bytes.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

func TestABusyProgramIsLeftAlone(t *testing.T) {
	var w watcher
	var times []int
	var allocated uint64
	for i := range 2*patience + 1 {
		allocated += calm
		if w.due(allocated) {
			times = append(times, i)
		}
	}
	if len(times) != 2 || times[0] != patience-1 || times[1] != 2*patience-1 {
		t.Errorf("it was interrupted at %v, and should be each %d looks", times, patience)
	}
	if !w.due(allocated) || w.due(allocated) {
		t.Error("it is not trimmed once when the burst is over")
	}
}

func TestAProgramIsTrimmedWhenItRestsAfterItAllocated(t *testing.T) {
	var w watcher
	for i, tt := range []struct {
		allocated uint64
		want      bool
	}{{spare + 1, false}, {spare + 1, true}, {spare + 1, false}, {2*spare + 1, false}, {2*spare + 1, false}, {2*spare + 2, true}} {
		if got := w.due(tt.allocated); got != tt.want {
			t.Errorf("look %d: %v, want %v", i, got, tt.want)
		}
	}
}
