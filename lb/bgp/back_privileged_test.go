//go:build privileged && timing

package bgp

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestASessionIsBackWithinThreeSecondsOfARoutersReset(t *testing.T) {
	resets := map[string]string{"frr": "clear bgp *", "bird": "restart all"}
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			router := d.start(newRouter(t), neighbour{lines: d.lines})
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(plan(router.session4(), "203.0.113.10/32"), plan(router.session6(), "2001:db8:113::10/128"))))
			isUp(t, speaker, 10*time.Second)
			both := map[string]string{"203.0.113.10": router.Local4.String(), "2001:db8:113::10": router.Local6.String()}
			router.holds(5*time.Second, both)
			var took []time.Duration
			for i := range 3 {
				router.ask(resets[name])
				begin := time.Now()
				eventually(t, 15*time.Second, "the sessions went down", func() (bool, string) {
					st := speaker.State(t.Context())
					return st[0].Losses == uint64(i+1) && st[1].Losses == uint64(i+1), fmt.Sprint(st)
				})
				isUp(t, speaker, 15*time.Second)
				took = append(took, time.Since(begin))
				router.holds(5*time.Second, both)
				t.Logf("up again after %v, routes after %v", took[i], time.Since(begin))
			}
			if slices.Min(took) > 3*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
