package uptime

import (
	"testing"
	"time"
)

func TestNowCountsAtLeastWhatGosClockDoes(t *testing.T) {
	before := Now()
	if before <= 0 {
		t.Fatalf("the machine has been running for %v", before)
	}
	timer := time.Now()
	<-time.After(10 * time.Millisecond)
	elapsed := time.Since(timer)
	if got := Now() - before; got < elapsed {
		t.Errorf("%v went by, and %v since boot", elapsed, got)
	}
}
