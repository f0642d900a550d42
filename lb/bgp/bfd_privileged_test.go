//go:build privileged

package bgp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// withBFD starts a router that has BFD with us, 100 ms x 3 at both ends.
func (r *router) withBFD(dialect string, lines string) *router {
	if dialect == "bird" {
		return r.bird(neighbour{lines: lines, top: "protocol bfd { interface \"*\" { min rx interval 100 ms; min tx interval 100 ms; multiplier 3; }; }\n"})
	}
	r.frr(neighbour{lines: "bfd profile fast\n" + lines, daemons: []string{"bfdd"}})
	return r
}

func withFast(c SessionConfig) SessionConfig {
	c.Session.BFD = fast
	return c
}

func bfdUp(t testing.TB, s *Speaker) {
	t.Helper()
	eventually(t, 15*time.Second, "BFD is up", func() (bool, string) {
		for _, st := range s.State(t.Context()) {
			if st.BFD != "up" || !st.Up {
				return false, fmt.Sprint(st, " BFD ", st.BFD)
			}
		}
		return true, ""
	})
}

// cut drops every packet on the router's end, without any sign to either side.
func (r *router) cut() {
	run(r.t, "ip", "netns", "exec", r.ns, "nft", "add table netdev cut; add chain netdev cut in { type filter hook ingress device eth0 priority 0; policy drop; }; add table inet cut; add chain inet cut out { type filter hook output priority 0; policy drop; }")
}

func (r *router) mend() {
	run(r.t, "ip", "netns", "exec", r.ns, "nft", "delete table netdev cut; delete table inet cut")
}

func TestBFDFindsALostPathAtBothEndsAndComesBack(t *testing.T) {
	for dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			r := newRouter(t).withBFD(dialect, map[string]string{"bird": " bfd on;\n"}[dialect])
			s := speaker(t)
			must(t, s.Set(t.Context(), config(withFast(plan(r.session4(), "203.0.113.10/32")), withFast(plan(r.session6(), "2001:db8:113::10/128")))))
			both := map[string]string{"203.0.113.10": r.Local4.String(), "2001:db8:113::10": r.Local6.String()}
			r.holds(15*time.Second, both)
			bfdUp(t, s)
			for range 2 {
				r.cut()
				begin := time.Now()
				eventually(t, 3*time.Second, "both sessions are down for the path", func() (bool, string) {
					st := s.State(t.Context())
					return st[0].Cause == PathDown && st[1].Cause == PathDown, fmt.Sprint(st)
				})
				t.Log("noticed here after", time.Since(begin))
				r.holds(3*time.Second, map[string]string{})
				t.Log("withdrawn by the router after", time.Since(begin))
				r.mend()
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

func TestLeavingWithBFDLosesNoRoute(t *testing.T) {
	// BIRD takes every end of a BFD session for a loss of the path, unless it is told
	// to go into graceful restart then.
	lines := map[string]string{"frr": "", "bird": " graceful restart on; bfd graceful;\n"}
	for dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			r := newRouter(t).withBFD(dialect, lines[dialect])
			c := config(withFast(plan(r.session4(), hundred("203.0.113.%d/32")...)), withFast(plan(r.session6(), hundred("2001:db8:113::%x/128")...)))
			first := NewSpeaker(Options{Log: logger(t)})
			must(t, first.Set(t.Context(), c))
			r.count(15*time.Second, 200)
			bfdUp(t, first)
			time.Sleep(time.Second)
			lost := r.watch()
			must(t, first.Leave(context.Background()))
			time.Sleep(2 * time.Second)
			second := speaker(t)
			c.Restarting = true
			must(t, second.Set(t.Context(), c))
			bfdUp(t, second)
			never(t, 4*time.Second, "the router lost routes", func() (bool, string) {
				n := len(r.routes())
				return lost() > 0 || n != 200, fmt.Sprintf("%d lost, %d there", lost(), n)
			})
		})
	}
}

func (r *router) startBFDD() {
	conf := filepath.Join(r.dir, "bfdd.conf")
	must(r.t, os.WriteFile(conf, []byte("log stdout debugging\nbfd\n profile fast\n  transmit-interval 100\n  receive-interval 100\n  detect-multiplier 3\n !\n!\n"), 0o644))
	r.daemonize("/usr/lib/frr/bfdd", "-u", "frr", "-g", "frr", "--vty_socket", r.dir, "-f", conf, "-i", filepath.Join(r.dir, "bfdd.pid"),
		"-z", filepath.Join(r.dir, "zserv.api"), "-A", "127.0.0.1", "--bfdctl", filepath.Join(r.dir, "bfdd.sock"))
}
