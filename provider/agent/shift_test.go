package agent

import (
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

func TestAChangeOfModeIsMadeReadyBeforeRoutesFollowAndEndsAfterThem(t *testing.T) {
	const direct, fabric, overlay, none = inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay, inventory.ModeNone
	tests := []struct {
		name                 string
		from, to             inventory.Mode
		ready, changed, done stage
	}{
		{"to the tunnel", fabric, overlay, stage{fabric, true, true}, stage{overlay, true, true}, stage{overlay, true, false}},
		{"from the tunnel", overlay, fabric, stage{overlay, true, true}, stage{fabric, true, true}, stage{fabric, false, true}},
		{"to the routers", direct, fabric, stage{direct, false, true}, stage{fabric, false, true}, stage{fabric, false, true}},
		{"from a CNI", none, overlay, stage{overlay, true, false}, stage{overlay, true, false}, stage{overlay, true, false}},
		{"to a CNI", fabric, none, stage{}, stage{}, stage{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := shift{pause: time.Second}
			s.mode(tt.from, now)
			if st, left := s.at(now); st.routes != tt.from || left != 0 {
				t.Errorf("the first mode: %+v for %v", st, left)
			}
			s.mode(tt.to, now)
			for after, want := range map[time.Duration]stage{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				s.mode(tt.to, now.Add(after)) // said again, it is no other change
				if got, _ := s.at(now.Add(after)); got != want {
					t.Errorf("after %v: %+v, want %+v", after, got, want)
				}
			}
		})
	}
}

func TestAShiftSaysWhenItsNextStepIsDue(t *testing.T) {
	now := time.Unix(1000, 0)
	s := shift{pause: time.Second}
	s.mode(inventory.ModeFabric, now)
	s.mode(inventory.ModeOverlay, now)
	for past, want := range map[time.Duration]time.Duration{0: time.Second, 400 * time.Millisecond: 600 * time.Millisecond, 1500 * time.Millisecond: 500 * time.Millisecond, 2 * time.Second: 0} {
		if _, left := s.at(now.Add(past)); left != want {
			t.Errorf("after %v there are %v left, want %v", past, left, want)
		}
	}
}
