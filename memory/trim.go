package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// every is how often the heap is looked at.
	every = 10 * time.Second
	// spare is how much may lie idle, in bytes: less is not worth a collection.
	spare = 4 << 20
)

// Trim returns idle memory to the machine until the context ends: what a first list of
// ten thousand objects took is not needed again, and the garbage collector by itself
// would keep much of it. It looks at the heap every ten seconds, and collects only
// when there is something to return.
func Trim(ctx context.Context) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			trim()
		}
	}
}

func trim() {
	if idle() > spare {
		debug.FreeOSMemory()
	}
}

// idle is how much of the heap holds nothing that is in use, in bytes, as far as it can
// be returned: garbage, and pages that are free and not returned yet.
func idle() uint64 {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"}, // by the last collection
	}
	metrics.Read(s)
	held, live := s[0].Value.Uint64()+s[1].Value.Uint64(), s[2].Value.Uint64()
	return held - min(held, live)
}
