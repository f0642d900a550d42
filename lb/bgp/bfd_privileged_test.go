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
			r := newRouter(t).withBFD(dialect, map[string]string{"bird": " bfd on;\n"}[dialect])
			s := speaker(t)
			must(t, s.Set(t.Context(), config(withFastBFD(plan(r.session4(), "203.0.113.10/32")), withFastBFD(plan(r.session6(), "2001:db8:113::10/128")))))
			both := map[string]string{"203.0.113.10": r.Local4.String(), "2001:db8:113::10": r.Local6.String()}
			r.holds(15*time.Second, both)
			bfdUp(t, s)
			for range 2 {
				r.dropPackets()
				begin := time.Now()
				eventually(t, 6*time.Second, "both sessions are down for the path", func() (bool, string) {
					st := s.State(t.Context())
					return isLostPath(st[0]) && isLostPath(st[1]), fmt.Sprint(st)
				})
				t.Log("noticed here after", time.Since(begin))
				r.holds(6*time.Second, map[string]string{})
				t.Log("withdrawn by the router after", time.Since(begin))
				r.passPackets()
				t.Log("routes are back after", r.holds(20*time.Second, both))
				bfdUp(t, s)
			}
			losses := s.State(t.Context())[0].Losses
			never(t, 5*time.Second, "a session flapped", func() (bool, string) {
				st := s.State(t.Context())
				return st[0].Losses != losses || !st[0].Up || !st[1].Up, fmt.Sprint(st)
			})
		})
	}
}

// isLostPath: a session whose path was lost before, not long ago, waits.
func isLostPath(s SessionState) bool {
	return s.Cause == PathDown || s.Cause == Flapping && strings.Contains(s.Detail, string(PathDown))
}

// withBFDOf is how router-config has the router watch a machine.
var withBFDOf = map[string]string{"frr": "", "bird": " graceful restart aware; bfd on;\n"}

func TestBFDComesUpBesideTTLSecurity(t *testing.T) {
	for dialect, lines := range map[string]string{"frr": "ttl-security hops 1\n", "bird": " ttl security on; bfd on;\n"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t).withBFD(dialect, lines)
			s := speaker(t)
			must(t, s.Set(t.Context(), config(r.vips(func(c *SessionConfig) { c.Session.BFD, c.Session.TTLSecurity = pace, true })...)))
			bfdUp(t, s)
			r.holds(5*time.Second, r.vipRoutes())
			r.dropPackets()
			t.Log("withdrawn after", r.holds(5*time.Second, map[string]string{}))
		})
	}
}

func TestTheFirstBFDSessionEndsNoBGPSession(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t).withBFD(dialect, lines)
			s := speaker(t)
			must(t, s.Set(t.Context(), config(withFastBFD(plan(r.session4(), "203.0.113.10/32")), withFastBFD(plan(r.session6(), "2001:db8:113::10/128")))))
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
			r := newRouter(t).withBFD(tt.dialect, withBFDOf[tt.dialect])
			first := runAgent(t, r, false, withPace())
			r.count(15*time.Second, 200)
			eventually(t, 10*time.Second, "BFD is up at the router", r.bfdSessions(2))
			lost := r.watch()
			must(t, first.Process.Signal(tt.sig))
			_ = first.Wait()
			time.Sleep(2 * time.Second) // longer than a silence that BFD would notice
			runAgent(t, r, true, withPace())
			eventually(t, 15*time.Second, "both sessions are up again", r.established(2))
			eventually(t, 10*time.Second, "BFD is up again at the router", r.bfdSessions(2))
			never(t, 4*time.Second, "the router lost routes", func() (bool, string) {
				n := len(r.routes())
				return lost() > 0 || n != 200, fmt.Sprintf("%d lost, %d there", lost(), n)
			})
			r.dropPackets() // and it is still there to notice this
			t.Log("withdrawn after", r.holds(6*time.Second, map[string]string{}))
		})
	}
}

func TestBIRDTakesTheRoutesOfAKilledProcessAwayAndBackWithBFD(t *testing.T) {
	r := newRouter(t).withBFD("bird", withBFDOf["bird"])
	first := runAgent(t, r, false, withPace())
	r.count(15*time.Second, 200)
	eventually(t, 10*time.Second, "BFD is up at the router", r.bfdSessions(2))
	must(t, first.Process.Kill())
	_ = first.Wait()
	r.count(8*time.Second, 0) // the restart time is 30 s
	runAgent(t, r, true, withPace())
	r.count(15*time.Second, 200)
}

// bfdSessions asks whether the router has so many BFD sessions up.
func (r *router) bfdSessions(n int) func() (bool, string) {
	return func() (bool, string) {
		out := r.ask("show bfd sessions") + r.ask("show bfd peers")
		return strings.Count(out, " Up ")+strings.Count(out, "Status: up") == n, out
	}
}

func TestBFDThatCannotBeOpenedIsDownUntilItCan(t *testing.T) {
	t.Parallel()
	r := newRouter(t).withBFD("bird", "bfd on;")
	s, c := speaker(t), config(withFastBFD(plan(r.session4(), "203.0.113.10/32")))
	other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.Sessions[0].Session.Local, 3784)))
	must(t, err)
	defer other.Close()
	if err := s.Set(t.Context(), c); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another program has the port, and Set says %v", err)
	}
	isUp(t, s, 15*time.Second)
	if err := s.Set(t.Context(), c); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another program still has the port, and Set says %v", err)
	}
	if st := s.State(t.Context())[0]; st.BFD != "down" {
		t.Errorf("BFD is %q", st.BFD)
	}
	must(t, other.Close())
	must(t, s.Set(t.Context(), c))
	bfdUp(t, s)
}
