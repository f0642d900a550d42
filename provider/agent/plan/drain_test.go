package plan

import (
	"testing"
	"time"
)

func TestDrainWarnsBeforeItWithdraws(t *testing.T) {
	start := time.Now()
	d := Drain{Time: 10 * time.Second}
	steps := []struct {
		at          time.Duration
		maintenance bool
		want        Phase
	}{
		{0, false, Phase{}},
		{time.Second, true, Phase{Draining: true, Next: 10 * time.Second}},
		{5 * time.Second, true, Phase{Draining: true, Next: 6 * time.Second}},
		{11 * time.Second, true, Phase{Withdrawn: true}},
		{12 * time.Second, false, Phase{}},
		{13 * time.Second, true, Phase{Draining: true, Next: 10 * time.Second}},
	}
	for _, s := range steps {
		if got := d.At(start.Add(s.at), s.maintenance, false); got != s.want {
			t.Errorf("after %v: %+v, want %+v", s.at, got, s.want)
		}
	}
}

func TestMachineThatStartsInMaintenanceAnnouncesNothing(t *testing.T) {
	d := Drain{Time: 10 * time.Second}
	if got := d.At(time.Now(), true, true); got != (Phase{Withdrawn: true}) {
		t.Errorf("got %+v", got)
	}
}

func TestDrainThatWasAskedForOutlivesTheInventorysWord(t *testing.T) {
	d := Drain{Time: time.Second, Asked: true}
	now := time.Now()
	d.At(now, false, false)
	if got := d.At(now.Add(time.Hour), false, false); got != (Phase{Withdrawn: true}) {
		t.Errorf("got %+v", got)
	}
}

func TestDrainGoesOnWhereTheProcessBeforeWas(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name        string
		drained     time.Duration
		maintenance bool
		want        Phase
	}{
		{"it announced, and maintenance began meanwhile", -1, true, Phase{Draining: true, Next: 10 * time.Second}},
		{"it was in the middle", 4 * time.Second, true, Phase{Draining: true, Next: 6 * time.Second}},
		{"it was at the end", time.Hour, true, Phase{Withdrawn: true}},
		{"maintenance ended meanwhile", time.Hour, false, Phase{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Drain{Time: 10 * time.Second}
			d.Resume(now, tt.drained)
			if got := d.At(now, tt.maintenance, true); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if lasted := d.Lasted(now); tt.maintenance && lasted != max(0, tt.drained) || !tt.maintenance && lasted >= 0 {
				t.Errorf("it has lasted %v", lasted)
			}
		})
	}
}
