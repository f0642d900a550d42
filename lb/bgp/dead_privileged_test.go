//go:build privileged && timing

package bgp

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/lb/advertise"
)

func TestADeadMachineIsWithdrawnAfterTheHoldTimeDespiteGracefulRestart(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := d.start(newRouter(t), neighbour{lines: d.lines})
			s := speaker(t)
			must(t, s.Set(t.Context(), config(r.vips(nil)...)))
			r.holds(10*time.Second, r.vipRoutes())
			time.Sleep(1500 * time.Millisecond)
			r.dropPackets()
			took := r.holds(15*time.Second, map[string]string{})
			t.Logf("withdrawn after %v", took)
			if took > 12*time.Second { // the hold time is 3 s, the restart time 30 s
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestTenThousandRoutesAreThereSoonAndOneMoreSooner(t *testing.T) {
	r := newRouter(t).bird(neighbour{})
	s := speaker(t)
	var ads []advertise.Advertisement
	a := netip.MustParseAddr("198.18.0.1")
	for range 10_000 {
		ads = append(ads, advertise.Advertisement{Prefix: netip.PrefixFrom(a, 32)})
		a = a.Next()
	}
	c := config(announcing(r.session4(), ads...))
	begin := time.Now()
	must(t, s.Set(t.Context(), c))
	t.Log("Set returned after", time.Since(begin))
	isUp(t, s, 60*time.Second)
	r.count(60*time.Second, 10_000)
	t.Log("all routes are in the router's kernel after", time.Since(begin))

	var took []time.Duration
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		c.Sessions[0].Advertisements = c.Sessions[0].Advertisements.Edit(nil, []advertise.Advertisement{{Prefix: netip.PrefixFrom(a, 32)}})
		a = a.Next()
		begin = time.Now()
		must(t, s.Set(t.Context(), c))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Log("one more of them is set within", took[len(took)/2], "at the most", took[len(took)-1])
	r.count(60*time.Second, 10_020)
	begin = time.Now()
	st := s.State(t.Context())[0]
	t.Log("a report takes", time.Since(begin))
	if len(st.Announced) != 10_020 {
		t.Errorf("%d announced", len(st.Announced))
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("heap %d MB", m.HeapInuse>>20)
}
