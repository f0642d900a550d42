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
			r, c, both := withLinkLocalRouter(t, dialect)
			ours, theirs := hardware(t, r.link), hardware(t, "eth0", "-n", r.ns)
			s := speaker(t)
			r.tentative()
			t.Log("set before there is an address to send from:", s.Set(t.Context(), c))
			watched := func() {
				t.Helper()
				t.Log("routes are there after", r.holds(60*time.Second, both))
				bfdUp(t, s)
				eventually(t, 10*time.Second, "BFD is up at the router", r.bfdSessions(1))
			}
			watched()
			for _, gone := range [][2]string{
				{"link set " + r.link + " down", "link set " + r.link + " up"},
				{"link del " + r.link, "link add " + r.link + " address " + ours + " up type veth peer name eth0 address " + theirs + " netns " + r.ns},
			} {
				run(t, "ip", strings.Fields(gone[0])...)
				eventually(t, 10*time.Second, "the session is down", func() (bool, string) {
					st := s.State(t.Context())[0]
					return !st.Up, fmt.Sprint(st)
				})
				run(t, "ip", strings.Fields(gone[1])...)
				run(t, "ip", "-n", r.ns, "link", "set", "eth0", "up")
				watched()
			}
			r.dropPackets()
			t.Log("withdrawn after", r.holds(6*time.Second, map[string]string{}))
		})
	}
}
