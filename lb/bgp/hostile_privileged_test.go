//go:build privileged && timing

package bgp

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

func TestAHostileRouterCostsAtMostItsOwnSession(t *testing.T) {
	for how := range rogues {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			bad, honest := newRouter(t), newRouter(t).bird(neighbour{})
			bad.rogue(how)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(plan(bad.both4(), "203.0.113.10/32"), plan(honest.session4(), "203.0.113.10/32"))))
			want := map[string]string{"203.0.113.10": honest.Local4.String()}
			honest.holds(10*time.Second, want)
			lost := honest.watch()
			up := state(t, speaker, honest).Since
			never(t, 12*time.Second, "the honest router noticed", func() (bool, string) {
				st := state(t, speaker, honest)
				return !st.Up || st.Since != up || st.Accepted > 0 || lost() > 0 || fmt.Sprint(honest.routes()) != fmt.Sprint(want), fmt.Sprint(st)
			})
			st := state(t, speaker, bad)
			if st.Cause == Refused {
				t.Errorf("the hostile router is not there: %v", st)
			}
			for _, p := range foreign(t, speaker) {
				t.Errorf("%s was accepted", p)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%v; heap %d MB", st, m.HeapInuse>>20)
			if m.HeapInuse > 150<<20 {
				t.Errorf("the heap has grown to %d MB", m.HeapInuse>>20)
			}
			if how == "a full table" && st.Cause != PrefixLimit {
				t.Errorf("down for %s: %s", st.Cause, st.Detail)
			}
		})
	}
}
