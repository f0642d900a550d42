//go:build privileged && timing

package bgp

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// vtysh gives FRR lines of configuration.
func (r *router) vtysh(lines ...string) {
	r.t.Helper()
	args := []string{"--vty_socket", r.dir, "-c", "configure terminal"}
	for _, l := range lines {
		args = append(args, "-c", l)
	}
	if out, err := exec.Command("vtysh", args...).CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %v\n%s", lines, err, out)
	}
}

// bfdIsNotUp waits until BFD is not up here.
func bfdIsNotUp(t testing.TB, s *Speaker) {
	t.Helper()
	eventually(t, 10*time.Second, "BFD is down", func() (bool, string) {
		st := s.State(t.Context())[0]
		return st.BFD != "up", fmt.Sprint(st, " BFD ", st.BFD)
	})
}

// TestBFDComesBackWithARouterThatWaitsForUs: a passive router sends nothing before it has
// received a packet, and discards those for the session that it has ended.
func TestBFDComesBackWithARouterThatWaitsForUs(t *testing.T) {
	t.Run("frr", func(t *testing.T) {
		t.Parallel()
		router := newRouter(t).frr(neighbour{lines: "bfd\nbfd profile fast\n", daemons: []string{"bfdd"}, only4: true})
		router.vtysh("bfd", "profile fast", "passive-mode")
		speaker := newSpeaker(t)
		must(t, speaker.Set(t.Context(), configOf(withFastBFD(plan(router.both4(), "203.0.113.10/32")))))
		bfdUp(t, speaker)
		for range 2 {
			neighbor := fmt.Sprintf("neighbor %v bfd", router.Local4)
			router.vtysh(fmt.Sprintf("router bgp %d", routerASN), "no "+neighbor)
			bfdIsNotUp(t, speaker)
			router.vtysh(fmt.Sprintf("router bgp %d", routerASN), neighbor, neighbor+" profile fast")
			bfdUp(t, speaker)
			eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(1))
		}
	})
	t.Run("bird", func(t *testing.T) {
		t.Parallel()
		router := newRouter(t)
		ms := pace.Interval.Milliseconds()
		router.bird(neighbour{lines: " graceful restart aware; bfd on;\n", only4: true, top: fmt.Sprintf(
			"protocol bfd watch { interface \"*\" { passive on; min rx interval %d ms; min tx interval %d ms; multiplier %d; }; }\n", ms, ms, pace.Multiplier)})
		speaker := newSpeaker(t)
		must(t, speaker.Set(t.Context(), configOf(withFastBFD(plan(router.both4(), "203.0.113.10/32")))))
		bfdUp(t, speaker)
		for range 2 {
			router.ask("disable watch")
			bfdIsNotUp(t, speaker)
			router.ask("enable watch")
			bfdUp(t, speaker)
			eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(1))
		}
	})
}

// TestBFDOverSeveralHopsComesUp: BIRD sends it with a TTL of 64, FRR with one of 255.
func TestBFDOverSeveralHopsComesUp(t *testing.T) {
	for dialect, lines := range map[string]string{"frr": "ebgp-multihop 2\n", "bird": " multihop 2; bfd on;\n"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t).withBFD(dialect, lines)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(r.vips(func(c *SessionConfig) { c.Session.BFD, c.Session.Multihop = pace, 2 })...)))
			bfdUp(t, speaker)
			eventually(t, 10*time.Second, "BFD is up at the router", r.bfdSessions(2))
			r.dropPackets()
			eventually(t, 6*time.Second, "both sessions are down for the path", func() (bool, string) {
				st := speaker.State(t.Context())
				return st[0].Cause == PathDown && st[1].Cause == PathDown, fmt.Sprint(st)
			})
		})
	}
}
