package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// every is the interval at which it is looked.
	every = time.Second / 2
	// patience is the number of looks for which a program that is busy is left alone.
	patience = 20
	// calm is the amount that a program that has nothing much to do allocates from one look
	// to the next, in bytes.
	calm = 1 << 20
	// spare is the amount that may be allocated, in bytes, until it is worth a collection.
	spare = 4 << 20
)

// Trim returns idle memory to the machine until the context ends: what a first list of
// ten thousand objects took is not needed again, and the garbage collector by itself
// would keep much of it. It looks twice a second, and collects when the program has
// allocated something since the last time and has come to rest, or after ten seconds
// without a rest.
//
// It does not ask how much is garbage: the runtime knows that as of its last collection,
// and takes what a burst held then as in use until the next one.
func Trim(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var watch watcher
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if watch.due(allocated()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// watcher remembers what the last looks saw. Amounts are those allocated since the start, in bytes.
type watcher struct {
	seen    uint64 // at the last look
	trimmed uint64 // when memory was returned
	busy    int    // looks since the program was calm, or memory was returned
}

// due reports whether it is time to return what is idle.
func (w *watcher) due(allocated uint64) bool {
	resting := allocated-w.seen < calm
	w.seen = allocated
	if w.busy++; !resting && w.busy < patience {
		return false
	}
	w.busy = 0
	if allocated-w.trimmed <= spare {
		return false
	}
	if w.trimmed = allocated; !resting {
		w.trimmed -= spare + 1 // once more at the next rest: what a burst holds now is in use to this collection
	}
	return true
}

// allocated returns the amount that was allocated since the start, in bytes.
func allocated() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
