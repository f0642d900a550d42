//go:build privileged && timing

package bgp

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestALinkLocalSessionIsWatchedByBFDWhateverItsLinkWentThrough(t *testing.T) {
	for _, dialect := range []string{"frr", "bird"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router, c, both := withLinkLocalRouter(t, dialect)
			ours, theirs := hardware(t, router.link), hardware(t, "eth0", "-n", router.ns)
			speaker := newSpeaker(t)
			router.tentative()
			t.Log("set before there is an address to send from:", speaker.Set(t.Context(), c))
			watched := func() {
				t.Helper()
				t.Log("routes are there after", router.holds(60*time.Second, both))
				bfdUp(t, speaker)
				eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(1))
			}
			watched()
			for _, gone := range [][2]string{
				{"link set " + router.link + " down", "link set " + router.link + " up"},
				{"link del " + router.link, "link add " + router.link + " address " + ours + " up type veth peer name eth0 address " + theirs + " netns " + router.ns},
			} {
				run(t, "ip", strings.Fields(gone[0])...)
				eventually(t, 10*time.Second, "the session is down", func() (bool, string) {
					st := speaker.State(t.Context())[0]
					return !st.Up, fmt.Sprint(st)
				})
				run(t, "ip", strings.Fields(gone[1])...)
				run(t, "ip", "-n", router.ns, "link", "set", "eth0", "up")
				watched()
			}
			router.dropPackets()
			t.Log("withdrawn after", router.holds(6*time.Second, map[string]string{}))
		})
	}
}
