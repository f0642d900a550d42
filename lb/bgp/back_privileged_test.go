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
			r := d.start(newRouter(t), neighbour{lines: d.lines})
			s := speaker(t)
			must(t, s.Set(t.Context(), config(plan(r.session4(), "203.0.113.10/32"), plan(r.session6(), "2001:db8:113::10/128"))))
			isUp(t, s, 10*time.Second)
			both := map[string]string{"203.0.113.10": r.Local4.String(), "2001:db8:113::10": r.Local6.String()}
			r.holds(5*time.Second, both)
			var took []time.Duration
			for i := range 3 {
				r.ask(resets[name])
				begin := time.Now()
				eventually(t, 15*time.Second, "the sessions went down", func() (bool, string) {
					st := s.State(t.Context())
					return st[0].Losses == uint64(i+1) && st[1].Losses == uint64(i+1), fmt.Sprint(st)
				})
				isUp(t, s, 15*time.Second)
				took = append(took, time.Since(begin))
				r.holds(5*time.Second, both)
				t.Logf("up again after %v, routes after %v", took[i], time.Since(begin))
			}
			if slices.Min(took) > 3*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
