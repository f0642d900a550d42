//go:build privileged

package bgp

import (
	"testing"
	"time"
)

func TestSessionsComeUpAndBothFamiliesHaveTheRightNextHops(t *testing.T) {
	starts := map[string]func(*router, neighbour) *router{"frr": (*router).frr, "bird": (*router).bird}
	for name, start := range starts {
		t.Run(name+" over one session for each family", func(t *testing.T) {
			r := start(newRouter(t), neighbour{})
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(plan(r.session4(), "203.0.113.10/32"), plan(r.session6(), "2001:db8:113::10/128"))))
			r.holds(10*time.Second, map[string]string{"203.0.113.10": r.Local4.String(), "2001:db8:113::10": r.Local6.String()})
			t.Log("up after", isUp(t, s, time.Second))
		})
		t.Run(name+" over one session for both families", func(t *testing.T) {
			r := start(newRouter(t), neighbour{only4: true})
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(plan(r.both4(), "203.0.113.10/32", "2001:db8:113::10/128"))))
			r.holds(10*time.Second, map[string]string{"203.0.113.10": r.Local4.String(), "2001:db8:113::10": r.Local6.String()})
		})
	}
}
