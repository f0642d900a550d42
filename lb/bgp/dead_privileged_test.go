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
			router := d.start(newRouter(t), neighbour{lines: d.lines})
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(router.vips(nil)...)))
			router.holds(10*time.Second, router.vipRoutes())
			time.Sleep(1500 * time.Millisecond)
			router.dropPackets()
			took := router.holds(15*time.Second, map[string]string{})
			t.Logf("withdrawn after %v", took)
			if took > 12*time.Second { // the hold time is 3 s, the restart time 30 s
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestTenThousandRoutesAreThereSoonAndOneMoreSooner(t *testing.T) {
	router := newRouter(t).bird(neighbour{})
	speaker := newSpeaker(t)
	var ads []advertise.Advertisement
	addr := netip.MustParseAddr("198.18.0.1")
	for range 10_000 {
		ads = append(ads, advertise.Advertisement{Prefix: netip.PrefixFrom(addr, 32)})
		addr = addr.Next()
	}
	config := configOf(announcing(router.session4(), ads...))
	begin := time.Now()
	must(t, speaker.Set(t.Context(), config))
	t.Log("Set returned after", time.Since(begin))
	isUp(t, speaker, 60*time.Second)
	router.count(60*time.Second, 10_000)
	t.Log("all routes are in the router's kernel after", time.Since(begin))

	var took []time.Duration
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		config.Sessions[0].Advertisements = config.Sessions[0].Advertisements.Edit(nil, []advertise.Advertisement{{Prefix: netip.PrefixFrom(addr, 32)}})
		addr = addr.Next()
		begin = time.Now()
		must(t, speaker.Set(t.Context(), config))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Log("one more of them is set within", took[len(took)/2], "at the most", took[len(took)-1])
	router.count(60*time.Second, 10_020)
	begin = time.Now()
	st := speaker.State(t.Context())[0]
	t.Log("a report takes", time.Since(begin))
	if len(st.Announced) != 10_020 {
		t.Errorf("%d announced", len(st.Announced))
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("heap %d MB", m.HeapInuse>>20)
}
