package memory

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestWhatABurstNeededIsReturned(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody but trim collects
	burst := make([][]byte, 64)
	for i := range burst {
		burst[i] = make([]byte, 1<<20)
	}
	runtime.KeepAlive(burst)
	if got := idle(); got < 60<<20 {
		t.Fatalf("%d bytes are idle, and should be 64 MB", got)
	}
	trim()
	if got := idle(); got > spare {
		t.Errorf("%d bytes are still idle", got)
	}
}
