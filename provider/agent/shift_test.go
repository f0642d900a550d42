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
			s.begin(now)
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
	s.begin(now)
	for past, want := range map[time.Duration]time.Duration{0: time.Second, 400 * time.Millisecond: 600 * time.Millisecond, 1500 * time.Millisecond: 500 * time.Millisecond, 2 * time.Second: 0} {
		if _, left := s.at(now.Add(past)); left != want {
			t.Errorf("after %v there are %v left, want %v", past, left, want)
		}
	}
}

func TestAChangeOfModeThatIsChangedOnTheWayGoesOnFromWhereRoutesAre(t *testing.T) {
	const direct, fabric, overlay = inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay
	type edit struct {
		after time.Duration
		mode  inventory.Mode
	}
	const early, late = 400 * time.Millisecond, 1400 * time.Millisecond
	tests := []struct {
		name                 string
		first                inventory.Mode
		edits                []edit
		ready, changed, done stage // after the last edit
	}{
		{"taken back before routes changed", fabric, []edit{{0, direct}, {early, fabric}},
			stage{fabric, false, true}, stage{fabric, false, true}, stage{fabric, false, true}},
		{"taken back after routes changed", fabric, []edit{{0, direct}, {late, fabric}},
			stage{direct, false, true}, stage{fabric, false, true}, stage{fabric, false, true}},
		{"the tunnel taken back before", fabric, []edit{{0, overlay}, {early, fabric}},
			stage{fabric, true, true}, stage{fabric, true, true}, stage{fabric, false, true}},
		{"the tunnel taken back after", fabric, []edit{{0, overlay}, {late, fabric}},
			stage{overlay, true, true}, stage{fabric, true, true}, stage{fabric, false, true}},
		{"the routers taken back before", overlay, []edit{{0, fabric}, {early, overlay}},
			stage{overlay, true, true}, stage{overlay, true, true}, stage{overlay, true, false}},
		{"the routers taken back after", overlay, []edit{{0, fabric}, {late, overlay}},
			stage{fabric, true, true}, stage{overlay, true, true}, stage{overlay, true, false}},
		{"three modes, early", fabric, []edit{{0, overlay}, {early, direct}},
			stage{fabric, true, true}, stage{direct, true, true}, stage{direct, false, false}},
		{"three modes, late", fabric, []edit{{0, overlay}, {late, direct}},
			stage{overlay, true, true}, stage{direct, true, true}, stage{direct, false, false}},
		{"there, back, and there again", direct, []edit{{0, overlay}, {early, direct}, {early, overlay}},
			stage{direct, true, false}, stage{overlay, true, false}, stage{overlay, true, false}},
		{"three modes and back", direct, []edit{{0, fabric}, {late, overlay}, {early, direct}},
			stage{fabric, true, true}, stage{direct, true, true}, stage{direct, false, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := shift{pause: time.Second}
			s.mode(tt.first, now)
			for _, e := range tt.edits {
				now = now.Add(e.after)
				before, _ := s.at(now)
				s.mode(e.mode, now)
				s.begin(now)
				if st, _ := s.at(now); st.routes != before.routes || before.tunnel && !st.tunnel || before.fabric && !st.fabric {
					t.Errorf("the edit to %s makes %+v of %+v at once", e.mode, st, before)
				}
			}
			for after, want := range map[time.Duration]stage{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				if got, _ := s.at(now.Add(after)); got != want {
					t.Errorf("%v after the last edit: %+v, want %+v", after, got, want)
				}
			}
		})
	}
}

func TestAShiftBeginsWhenItsFirstStepCanBeMade(t *testing.T) {
	now := time.Unix(1000, 0)
	s := shift{pause: time.Second}
	s.mode(inventory.ModeFabric, now)
	s.mode(inventory.ModeOverlay, now)
	now = now.Add(time.Minute)
	ready, changed := stage{inventory.ModeFabric, true, true}, stage{inventory.ModeOverlay, true, true}
	if got, left := s.at(now); got != ready || left != time.Second {
		t.Errorf("before it begins: %+v for %v", got, left)
	}
	s.begin(now)
	s.begin(now.Add(900 * time.Millisecond)) // every pass says so
	if got, left := s.at(now.Add(900 * time.Millisecond)); got != ready || left != 100*time.Millisecond {
		t.Errorf("within the first pause: %+v for %v", got, left)
	}
	if got, _ := s.at(now.Add(time.Second)); got != changed {
		t.Errorf("after it: %+v", got)
	}
}
