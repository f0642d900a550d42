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
		{"to the tunnel", fabric, overlay, stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: overlay, tunnel: true, fabric: false}},
		{"from the tunnel", overlay, fabric, stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}},
		{"to the routers", direct, fabric, stage{routes: direct, tunnel: false, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}},
		{"from a CNI", none, overlay, stage{routes: overlay, tunnel: true, fabric: false}, stage{routes: overlay, tunnel: true, fabric: false}, stage{routes: overlay, tunnel: true, fabric: false}},
		{"to a CNI", fabric, none, stage{}, stage{}, stage{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := shift{pause: time.Second}
			s.change(carriage{mode: tt.from}, now)
			if st, left := s.at(now); st.routes != tt.from || left != 0 {
				t.Errorf("the first mode: %+v for %v", st, left)
			}
			s.change(carriage{mode: tt.to}, now)
			s.begin(now)
			for after, want := range map[time.Duration]stage{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				s.change(carriage{mode: tt.to}, now.Add(after)) // said again, it is no other change
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
	s.change(carriage{mode: inventory.ModeFabric}, now)
	s.change(carriage{mode: inventory.ModeOverlay}, now)
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
			stage{routes: fabric, tunnel: false, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}},
		{"taken back after routes changed", fabric, []edit{{0, direct}, {late, fabric}},
			stage{routes: direct, tunnel: false, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}},
		{"the tunnel taken back before", fabric, []edit{{0, overlay}, {early, fabric}},
			stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}},
		{"the tunnel taken back after", fabric, []edit{{0, overlay}, {late, fabric}},
			stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: fabric, tunnel: false, fabric: true}},
		{"the routers taken back before", overlay, []edit{{0, fabric}, {early, overlay}},
			stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: overlay, tunnel: true, fabric: false}},
		{"the routers taken back after", overlay, []edit{{0, fabric}, {late, overlay}},
			stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: overlay, tunnel: true, fabric: false}},
		{"three modes, early", fabric, []edit{{0, overlay}, {early, direct}},
			stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: direct, tunnel: true, fabric: true}, stage{routes: direct, tunnel: false, fabric: false}},
		{"three modes, late", fabric, []edit{{0, overlay}, {late, direct}},
			stage{routes: overlay, tunnel: true, fabric: true}, stage{routes: direct, tunnel: true, fabric: true}, stage{routes: direct, tunnel: false, fabric: false}},
		{"there, back, and there again", direct, []edit{{0, overlay}, {early, direct}, {early, overlay}},
			stage{routes: direct, tunnel: true, fabric: false}, stage{routes: overlay, tunnel: true, fabric: false}, stage{routes: overlay, tunnel: true, fabric: false}},
		{"three modes and back", direct, []edit{{0, fabric}, {late, overlay}, {early, direct}},
			stage{routes: fabric, tunnel: true, fabric: true}, stage{routes: direct, tunnel: true, fabric: true}, stage{routes: direct, tunnel: false, fabric: false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := shift{pause: time.Second}
			s.change(carriage{mode: tt.first}, now)
			for _, e := range tt.edits {
				now = now.Add(e.after)
				before, _ := s.at(now)
				s.change(carriage{mode: e.mode}, now)
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
	s.change(carriage{mode: inventory.ModeFabric}, now)
	s.change(carriage{mode: inventory.ModeOverlay}, now)
	now = now.Add(time.Minute)
	ready, changed := stage{routes: inventory.ModeFabric, tunnel: true, fabric: true}, stage{routes: inventory.ModeOverlay, tunnel: true, fabric: true}
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

func TestAChangeOfTheTunnelsPortIsMadeReadyBeforeRoutesFollowAndEndsAfterThem(t *testing.T) {
	const fabric, overlay = inventory.ModeFabric, inventory.ModeOverlay
	none, a, b, c := inventory.VXLAN{}, inventory.VXLAN{Port: 4789, VNI: 114}, inventory.VXLAN{Port: 8472, VNI: 114}, inventory.VXLAN{Port: 8472, VNI: 7}
	type edit struct {
		after time.Duration
		to    carriage
	}
	type tunnel struct{ sends, also inventory.VXLAN }
	const early, late = 400 * time.Millisecond, 1400 * time.Millisecond
	tests := []struct {
		name                 string
		edits                []edit
		ready, changed, done tunnel // after the last edit
		gone                 bool   // the tunnel, in the end
	}{
		{"another port", []edit{{0, carriage{overlay, a}}, {0, carriage{overlay, b}}}, tunnel{a, b}, tunnel{b, a}, tunnel{b, none}, false},
		{"taken back early", []edit{{0, carriage{overlay, a}}, {0, carriage{overlay, b}}, {early, carriage{overlay, a}}}, tunnel{a, b}, tunnel{a, b}, tunnel{a, none}, false},
		{"taken back late", []edit{{0, carriage{overlay, a}}, {0, carriage{overlay, b}}, {late, carriage{overlay, a}}}, tunnel{b, a}, tunnel{a, b}, tunnel{a, none}, false},
		{"a third one", []edit{{0, carriage{overlay, a}}, {0, carriage{overlay, b}}, {late, carriage{overlay, c}}}, tunnel{b, c}, tunnel{c, b}, tunnel{c, none}, false},
		{"with the mode, to the tunnel", []edit{{0, carriage{fabric, a}}, {0, carriage{overlay, b}}}, tunnel{b, none}, tunnel{b, none}, tunnel{b, none}, false},
		{"with the mode, from the tunnel", []edit{{0, carriage{overlay, a}}, {0, carriage{fabric, b}}}, tunnel{a, none}, tunnel{a, none}, tunnel{b, none}, true},
		{"from a CNI", []edit{{0, carriage{}}, {0, carriage{overlay, b}}}, tunnel{b, none}, tunnel{b, none}, tunnel{b, none}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := shift{pause: time.Second}
			for i, e := range tt.edits {
				now = now.Add(e.after)
				before, _ := s.at(now)
				s.change(e.to, now)
				s.begin(now)
				st, _ := s.at(now)
				if i > 0 && before.tunnel && (!st.tunnel || st.vxlan != before.vxlan) {
					t.Errorf("the edit to %+v makes %+v of %+v at once", e.to, st, before)
				}
			}
			for after, want := range map[time.Duration]tunnel{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				got, _ := s.at(now.Add(after))
				if (tunnel{got.vxlan, got.also}) != want {
					t.Errorf("%v after the last edit: %+v, want %+v", after, got, want)
				}
			}
			if got, _ := s.at(now.Add(2 * time.Second)); got.tunnel == tt.gone {
				t.Errorf("in the end: %+v", got)
			}
		})
	}
}
