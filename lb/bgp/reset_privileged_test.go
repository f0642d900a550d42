//go:build privileged

package bgp

import (
	"fmt"
	"testing"
	"time"
)

func TestALostConnectionLosesNoRoute(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router := d.start(newRouter(t), neighbour{lines: d.lines})
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(plan(router.session4(), hundred("203.0.113.%d/32")...), plan(router.session6(), hundred("2001:db8:113::%x/128")...))))
			router.count(15*time.Second, 200)
			time.Sleep(time.Second)
			lost := router.watch()
			// ss -K aborts the connections: both ends see a reset without a NOTIFICATION.
			run(t, "ip", "netns", "exec", router.ns, "ss", "-K", "sport", "=", "179")
			eventually(t, 15*time.Second, "the sessions went down", func() (bool, string) {
				st := speaker.State(t.Context())
				return st[0].Losses == 1 && st[1].Losses == 1, fmt.Sprint(st)
			})
			isUp(t, speaker, 15*time.Second)
			never(t, 4*time.Second, "the router lost routes", func() (bool, string) {
				n := len(router.routes())
				return lost() > 0 || n != 200, fmt.Sprintf("%d lost, %d there", lost(), n)
			})
		})
	}
}
