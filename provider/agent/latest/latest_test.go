package latest_test

import (
	"context"
	"testing"

	"plinth.dev/plinth/provider/agent/latest"
)

func TestTheLatestOfManyValuesIsTakenAndWhoPutsNeverWaits(t *testing.T) {
	v := latest.New[int]()
	for n := range 1000 {
		v.Put(n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var taken []int
	v.Each(ctx, 0, func(n int) {
		if taken = append(taken, n); n == 999 {
			v.Put(1000)
			return
		}
		cancel()
	})
	if len(taken) != 2 || taken[0] != 999 || taken[1] != 1000 {
		t.Errorf("took %v, want 999 and what came meanwhile", taken)
	}
}
