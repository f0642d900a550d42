package bfd

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWhatIsLostAgainAndAgainIsHeldBackLongerEachTime(t *testing.T) {
	var d Damping
	var got []string
	for _, up := range []time.Duration{time.Hour, 1, 1, 1, 1, 1, 1, 1, Steady - 1, Steady, 1} {
		got = append(got, d.Lost(up).String())
	}
	if want := "[0s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 0s 2s]"; fmt.Sprint(got) != want {
		t.Errorf("held back for %v, want %v", got, want)
	}
}

func TestWhatIsLostNowAndThenIsNeverHeldBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Damping
		for _, more := range rapid.SliceOf(rapid.Int64Range(0, int64(24*time.Hour))).Draw(t, "up for Steady and") {
			if hold := d.Lost(Steady + time.Duration(more)); hold != 0 || d.Flaps() != 1 {
				t.Fatalf("held back for %v, %d flaps", hold, d.Flaps())
			}
		}
	})
}

func TestNothingIsHeldBackForMoreThanAMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Damping
		var last time.Duration
		for range rapid.IntRange(1, 10_000).Draw(t, "losses") {
			hold := d.Lost(0)
			if hold < last || hold > time.Minute {
				t.Fatalf("held back for %v after %v", hold, last)
			}
			last = hold
		}
	})
}
