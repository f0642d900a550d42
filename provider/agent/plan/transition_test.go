package plan

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
		ready, changed, done Step
	}{
		{"to the tunnel", fabric, overlay, Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: overlay, Tunnel: true, Fabric: false}},
		{"from the tunnel", overlay, fabric, Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}},
		{"to the routers", direct, fabric, Step{Routes: direct, Tunnel: false, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}},
		{"from a CNI", none, overlay, Step{Routes: overlay, Tunnel: true, Fabric: false}, Step{Routes: overlay, Tunnel: true, Fabric: false}, Step{Routes: overlay, Tunnel: true, Fabric: false}},
		{"to a CNI", fabric, none, Step{}, Step{}, Step{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := ModeTransition{Pause: time.Second}
			s.Change(Carriage{Mode: tt.from}, now)
			if st, left := s.At(now); st.Routes != tt.from || left != 0 {
				t.Errorf("the first mode: %+v for %v", st, left)
			}
			s.Change(Carriage{Mode: tt.to}, now)
			s.Begin(now)
			for after, want := range map[time.Duration]Step{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				s.Change(Carriage{Mode: tt.to}, now.Add(after)) // said again, it is no other change
				if got, _ := s.At(now.Add(after)); got != want {
					t.Errorf("after %v: %+v, want %+v", after, got, want)
				}
			}
		})
	}
}

func TestAShiftSaysWhenItsNextStepIsDue(t *testing.T) {
	now := time.Unix(1000, 0)
	s := ModeTransition{Pause: time.Second}
	s.Change(Carriage{Mode: inventory.ModeFabric}, now)
	s.Change(Carriage{Mode: inventory.ModeOverlay}, now)
	s.Begin(now)
	for past, want := range map[time.Duration]time.Duration{0: time.Second, 400 * time.Millisecond: 600 * time.Millisecond, 1500 * time.Millisecond: 500 * time.Millisecond, 2 * time.Second: 0} {
		if _, left := s.At(now.Add(past)); left != want {
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
		ready, changed, done Step // after the last edit
	}{
		{"taken back before routes changed", fabric, []edit{{0, direct}, {early, fabric}},
			Step{Routes: fabric, Tunnel: false, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}},
		{"taken back after routes changed", fabric, []edit{{0, direct}, {late, fabric}},
			Step{Routes: direct, Tunnel: false, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}},
		{"the tunnel taken back before", fabric, []edit{{0, overlay}, {early, fabric}},
			Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}},
		{"the tunnel taken back after", fabric, []edit{{0, overlay}, {late, fabric}},
			Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: fabric, Tunnel: false, Fabric: true}},
		{"the routers taken back before", overlay, []edit{{0, fabric}, {early, overlay}},
			Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: overlay, Tunnel: true, Fabric: false}},
		{"the routers taken back after", overlay, []edit{{0, fabric}, {late, overlay}},
			Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: overlay, Tunnel: true, Fabric: false}},
		{"three modes, early", fabric, []edit{{0, overlay}, {early, direct}},
			Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: direct, Tunnel: true, Fabric: true}, Step{Routes: direct, Tunnel: false, Fabric: false}},
		{"three modes, late", fabric, []edit{{0, overlay}, {late, direct}},
			Step{Routes: overlay, Tunnel: true, Fabric: true}, Step{Routes: direct, Tunnel: true, Fabric: true}, Step{Routes: direct, Tunnel: false, Fabric: false}},
		{"there, back, and there again", direct, []edit{{0, overlay}, {early, direct}, {early, overlay}},
			Step{Routes: direct, Tunnel: true, Fabric: false}, Step{Routes: overlay, Tunnel: true, Fabric: false}, Step{Routes: overlay, Tunnel: true, Fabric: false}},
		{"three modes and back", direct, []edit{{0, fabric}, {late, overlay}, {early, direct}},
			Step{Routes: fabric, Tunnel: true, Fabric: true}, Step{Routes: direct, Tunnel: true, Fabric: true}, Step{Routes: direct, Tunnel: false, Fabric: false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := ModeTransition{Pause: time.Second}
			s.Change(Carriage{Mode: tt.first}, now)
			for _, e := range tt.edits {
				now = now.Add(e.after)
				before, _ := s.At(now)
				s.Change(Carriage{Mode: e.mode}, now)
				s.Begin(now)
				if st, _ := s.At(now); st.Routes != before.Routes || before.Tunnel && !st.Tunnel || before.Fabric && !st.Fabric {
					t.Errorf("the edit to %s makes %+v of %+v at once", e.mode, st, before)
				}
			}
			for after, want := range map[time.Duration]Step{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				if got, _ := s.At(now.Add(after)); got != want {
					t.Errorf("%v after the last edit: %+v, want %+v", after, got, want)
				}
			}
		})
	}
}

func TestAShiftBeginsWhenItsFirstStepCanBeMade(t *testing.T) {
	now := time.Unix(1000, 0)
	s := ModeTransition{Pause: time.Second}
	s.Change(Carriage{Mode: inventory.ModeFabric}, now)
	s.Change(Carriage{Mode: inventory.ModeOverlay}, now)
	now = now.Add(time.Minute)
	ready, changed := Step{Routes: inventory.ModeFabric, Tunnel: true, Fabric: true}, Step{Routes: inventory.ModeOverlay, Tunnel: true, Fabric: true}
	if got, left := s.At(now); got != ready || left != time.Second {
		t.Errorf("before it begins: %+v for %v", got, left)
	}
	s.Begin(now)
	s.Begin(now.Add(900 * time.Millisecond)) // every pass says so
	if got, left := s.At(now.Add(900 * time.Millisecond)); got != ready || left != 100*time.Millisecond {
		t.Errorf("within the first pause: %+v for %v", got, left)
	}
	if got, _ := s.At(now.Add(time.Second)); got != changed {
		t.Errorf("after it: %+v", got)
	}
}

func TestAChangeOfTheTunnelsPortIsMadeReadyBeforeRoutesFollowAndEndsAfterThem(t *testing.T) {
	const fabric, overlay = inventory.ModeFabric, inventory.ModeOverlay
	none, a, b, c := inventory.VXLAN{}, inventory.VXLAN{Port: 4789, VNI: 114}, inventory.VXLAN{Port: 8472, VNI: 114}, inventory.VXLAN{Port: 8472, VNI: 7}
	type edit struct {
		after time.Duration
		to    Carriage
	}
	type tunnel struct{ sends, also inventory.VXLAN }
	const early, late = 400 * time.Millisecond, 1400 * time.Millisecond
	tests := []struct {
		name                 string
		edits                []edit
		ready, changed, done tunnel // after the last edit
		gone                 bool   // the tunnel, in the end
	}{
		{"another port", []edit{{0, Carriage{overlay, a}}, {0, Carriage{overlay, b}}}, tunnel{a, b}, tunnel{b, a}, tunnel{b, none}, false},
		{"taken back early", []edit{{0, Carriage{overlay, a}}, {0, Carriage{overlay, b}}, {early, Carriage{overlay, a}}}, tunnel{a, b}, tunnel{a, b}, tunnel{a, none}, false},
		{"taken back late", []edit{{0, Carriage{overlay, a}}, {0, Carriage{overlay, b}}, {late, Carriage{overlay, a}}}, tunnel{b, a}, tunnel{a, b}, tunnel{a, none}, false},
		{"a third one", []edit{{0, Carriage{overlay, a}}, {0, Carriage{overlay, b}}, {late, Carriage{overlay, c}}}, tunnel{b, c}, tunnel{c, b}, tunnel{c, none}, false},
		{"with the mode, to the tunnel", []edit{{0, Carriage{fabric, a}}, {0, Carriage{overlay, b}}}, tunnel{b, none}, tunnel{b, none}, tunnel{b, none}, false},
		{"with the mode, from the tunnel", []edit{{0, Carriage{overlay, a}}, {0, Carriage{fabric, b}}}, tunnel{a, none}, tunnel{a, none}, tunnel{b, none}, true},
		{"from a CNI", []edit{{0, Carriage{}}, {0, Carriage{overlay, b}}}, tunnel{b, none}, tunnel{b, none}, tunnel{b, none}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := ModeTransition{Pause: time.Second}
			for i, e := range tt.edits {
				now = now.Add(e.after)
				before, _ := s.At(now)
				s.Change(e.to, now)
				s.Begin(now)
				st, _ := s.At(now)
				if i > 0 && before.Tunnel && (!st.Tunnel || st.VXLAN != before.VXLAN) {
					t.Errorf("the edit to %+v makes %+v of %+v at once", e.to, st, before)
				}
			}
			for after, want := range map[time.Duration]tunnel{0: tt.ready, time.Second: tt.changed, 2 * time.Second: tt.done} {
				got, _ := s.At(now.Add(after))
				if (tunnel{got.VXLAN, got.AlsoVXLAN}) != want {
					t.Errorf("%v after the last edit: %+v, want %+v", after, got, want)
				}
			}
			if got, _ := s.At(now.Add(2 * time.Second)); got.Tunnel == tt.gone {
				t.Errorf("in the end: %+v", got)
			}
		})
	}
}
