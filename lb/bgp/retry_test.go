package bgp

import (
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/bfd"
)

func TestEachPauseIsTwiceTheLastUpToABound(t *testing.T) {
	for _, tt := range []struct {
		name string
		next func(*retry) time.Duration
		want []time.Duration
	}{
		{"refusals", (*retry).afterRefusal, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 16 * time.Minute}},
		{"collisions", (*retry).afterCollision, []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}},
	} {
		var r retry
		var got []time.Duration
		for range tt.want {
			got = append(got, tt.next(&r))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: pauses of %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A session that is up for long may still be one that another speaker wants: collisions have a time of their own.
func TestASessionThatIsUpForLongResetsAllButCollisions(t *testing.T) {
	last := time.Now()
	state := retry{attempts: 3, refusals: 2, lastCollision: last}
	state.losses.Lost(0)
	state.collisions.Lost(0)
	collisions := state.collisions
	state.established()
	if want := (retry{losses: bfd.Damping{}, collisions: collisions, lastCollision: last}); state != want {
		t.Errorf("got %+v, want %+v", state, want)
	}
}

func TestTheFirstAttemptIsShorterThanTheOthers(t *testing.T) {
	for attempts, want := range []time.Duration{firstAttemptTime, attemptTime, attemptTime} {
		if r := (retry{attempts: attempts}); r.attemptTime() != want {
			t.Errorf("after %d attempts the next one has %v, want %v", attempts, r.attemptTime(), want)
		}
	}
}
