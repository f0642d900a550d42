//go:build privileged && timing

package bgp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestBFDFindsALostPathAtBothEndsAndComesBack(t *testing.T) {
	for dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, map[string]string{"bird": " bfd on;\n"}[dialect])
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(withFastBFD(plan(router.session4(), "203.0.113.10/32")), withFastBFD(plan(router.session6(), "2001:db8:113::10/128")))))
			both := map[string]string{"203.0.113.10": router.Local4.String(), "2001:db8:113::10": router.Local6.String()}
			router.holds(15*time.Second, both)
			bfdUp(t, speaker)
			for range 2 {
				router.dropPackets()
				begin := time.Now()
				eventually(t, 6*time.Second, "both sessions are down for the path", func() (bool, string) {
					st := speaker.State(t.Context())
					return isLostPath(st[0]) && isLostPath(st[1]), fmt.Sprint(st)
				})
				t.Log("noticed here after", time.Since(begin))
				router.holds(6*time.Second, map[string]string{})
				t.Log("withdrawn by the router after", time.Since(begin))
				router.passPackets()
				t.Log("routes are back after", router.holds(20*time.Second, both))
				bfdUp(t, speaker)
			}
			losses := speaker.State(t.Context())[0].Losses
			never(t, 5*time.Second, "a session flapped", func() (bool, string) {
				st := speaker.State(t.Context())
				return st[0].Losses != losses || !st[0].Up || !st[1].Up, fmt.Sprint(st)
			})
		})
	}
}

// isLostPath reports whether BFD lost the path, or had lost it before the session is held down.
func isLostPath(s SessionState) bool {
	return s.Cause == PathDown || s.Cause == Flapping && strings.Contains(s.Detail, string(PathDown))
}

// withBFDOf returns the configuration by which router-config has a router watch a machine.
var withBFDOf = map[string]string{"frr": "", "bird": " graceful restart aware; bfd on;\n"}

func TestBFDComesUpBesideTTLSecurity(t *testing.T) {
	for dialect, lines := range map[string]string{"frr": "ttl-security hops 1\n", "bird": " ttl security on; bfd on;\n"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(router.vips(func(c *SessionConfig) { c.Session.BFD, c.Session.TTLSecurity = pace, true })...)))
			bfdUp(t, s)
			router.holds(5*time.Second, router.vipRoutes())
			router.dropPackets()
			t.Log("withdrawn after", router.holds(5*time.Second, map[string]string{}))
		})
	}
}

func TestTheFirstBFDSessionEndsNoBGPSession(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t).withBFD(dialect, lines)
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(withFastBFD(plan(r.session4(), "203.0.113.10/32")), withFastBFD(plan(r.session6(), "2001:db8:113::10/128")))))
			bfdUp(t, s)
			never(t, 3*time.Second, "a session was lost", func() (bool, string) {
				st := s.State(t.Context())
				return st[0].Losses+st[1].Losses > 0, fmt.Sprint(st)
			})
		})
	}
}

// A router that loses the connection of a killed process first has it in graceful
// restart when BFD falls silent: FRR leaves it there. BIRD ends it, or, told so
// (bfd graceful), does not end it for a dead machine either.
func TestAProcessThatComesBackLosesNoRouteToBFD(t *testing.T) {
	for _, tt := range []struct {
		dialect string
		sig     syscall.Signal
	}{{"frr", syscall.SIGTERM}, {"frr", syscall.SIGKILL}, {"bird", syscall.SIGTERM}} {
		t.Run(fmt.Sprintf("%s, %v", tt.dialect, tt.sig), func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(tt.dialect, withBFDOf[tt.dialect])
			first := runAgent(t, router, false, withPace())
			router.count(15*time.Second, 200)
			eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(2))
			lost := router.watch()
			must(t, first.Process.Signal(tt.sig))
			_ = first.Wait()
			time.Sleep(2 * time.Second) // longer than a silence that BFD would notice
			runAgent(t, router, true, withPace())
			eventually(t, 15*time.Second, "both sessions are up again", router.established(2))
			eventually(t, 10*time.Second, "BFD is up again at the router", router.bfdSessions(2))
			never(t, 4*time.Second, "the router lost routes", func() (bool, string) {
				n := len(router.routes())
				return lost() > 0 || n != 200, fmt.Sprintf("%d lost, %d there", lost(), n)
			})
			router.dropPackets() // and it is still there to notice this
			t.Log("withdrawn after", router.holds(6*time.Second, map[string]string{}))
		})
	}
}

func TestBIRDTakesTheRoutesOfAKilledProcessAwayAndBackWithBFD(t *testing.T) {
	router := newRouter(t).withBFD("bird", withBFDOf["bird"])
	first := runAgent(t, router, false, withPace())
	router.count(15*time.Second, 200)
	eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(2))
	must(t, first.Process.Kill())
	_ = first.Wait()
	router.count(8*time.Second, 0) // the restart time is 30 s
	runAgent(t, router, true, withPace())
	router.count(15*time.Second, 200)
}

// bfdSessions reports whether the router has so many BFD sessions up.
func (r *router) bfdSessions(n int) func() (bool, string) {
	return func() (bool, string) {
		out := r.ask("show bfd sessions") + r.ask("show bfd peers")
		return strings.Count(out, " Up ")+strings.Count(out, "Status: up") == n, out
	}
}

func TestBFDThatCannotBeOpenedIsDownUntilItCan(t *testing.T) {
	t.Parallel()
	r := newRouter(t).withBFD("bird", "bfd on;")
	speaker, config := newSpeaker(t), configOf(withFastBFD(plan(r.session4(), "203.0.113.10/32")))
	other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(config.Sessions[0].Session.Local, 3784)))
	must(t, err)
	defer other.Close()
	if err := speaker.Set(t.Context(), config); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another program has the port, and Set returns %v", err)
	}
	isUp(t, speaker, 15*time.Second)
	if err := speaker.Set(t.Context(), config); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another program still has the port, and Set returns %v", err)
	}
	if st := speaker.State(t.Context())[0]; st.BFD != "down" {
		t.Errorf("BFD is %q", st.BFD)
	}
	must(t, other.Close())
	must(t, speaker.Set(t.Context(), config))
	bfdUp(t, speaker)
}
