package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// every is the interval at which the heap is looked at.
	every = time.Second / 2
	// patience is the number of looks for which a program that is busy is left alone.
	patience = 20
	// calm is the amount that a program that has nothing much to do allocates from one look
	// to the next, in bytes.
	calm = 1 << 20
	// spare is the amount that may lie idle, in bytes: less is not worth a collection.
	spare = 4 << 20
)

// Trim returns idle memory to the machine until the context ends: what a first list of
// ten thousand objects took is not needed again, and the garbage collector by itself
// would keep much of it. It looks at the heap twice a second, and collects when there is
// something to return and the program has come to rest, or after ten seconds without
// a rest.
func Trim(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var watch watcher
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if watch.due(look()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// watcher remembers what the last look at the heap saw.
type watcher struct {
	allocated uint64
	busy      int // looks since the program was calm, or was collected
}

// due reports whether it is time to return what is idle.
func (w *watcher) due(heap heap) bool {
	resting := heap.allocated-w.allocated < calm
	w.allocated = heap.allocated
	if w.busy++; !resting && w.busy < patience {
		return false
	}
	w.busy = 0
	return heap.idle > spare
}

type heap struct {
	allocated uint64 // since the start, in bytes
	idle      uint64 // holds nothing that is in use, and can be returned: garbage, and pages that are free; in bytes
}

func look() heap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"}, // by the last collection
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	held, live := samples[0].Value.Uint64()+samples[1].Value.Uint64(), samples[2].Value.Uint64()
	return heap{allocated: samples[3].Value.Uint64(), idle: held - min(held, live)}
}
