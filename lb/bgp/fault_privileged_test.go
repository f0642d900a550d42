//go:build privileged

package bgp

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// vipRoutes returns the routes of one VIP of each family in a router's kernel.
func (r *router) vipRoutes() map[string]string {
	return map[string]string{"203.0.113.10": r.Local4.String(), "2001:db8:113::10": r.Local6.String()}
}

// vips announces one VIP of each family over a session of its own.
func (r *router) vips(change func(*SessionConfig)) []SessionConfig {
	all := []SessionConfig{plan(r.session4(), "203.0.113.10/32"), plan(r.session6(), "2001:db8:113::10/128")}
	for i := range all {
		all[i].Session.HoldTime = 3 * time.Second
		if change != nil {
			change(&all[i])
		}
	}
	return all
}

// untouched is a second router of the same machine. No fault of the first one may affect
// its sessions.
type untouched struct {
	*router
	s    *Speaker
	lost func() int
	was  string
}

// patient keeps a session up while this machine stalls.
func patient(c *SessionConfig) { c.Session.HoldTime = 9 * time.Second }

// newUntouched starts such a router.
func newUntouched(t testing.TB, dialect string) *untouched {
	return &untouched{router: dialects[dialect].start(newRouter(t), neighbour{lines: dialects[dialect].lines})}
}

// story returns what may not change while other sessions fail.
func (u *untouched) story() string {
	var all []string
	for _, st := range u.s.State(u.t.Context()) {
		if st.Router == u.ns {
			all = append(all, fmt.Sprintf("%v up %v since %v, %d losses, %d updates", st.Key, st.Up, st.Since, st.Losses, st.UpdatesSent))
		}
	}
	return strings.Join(all, "; ")
}

// begin waits until both sessions are up, and records their state.
func (u *untouched) begin(s *Speaker) {
	u.t.Helper()
	u.s = s
	u.holds(15*time.Second, u.vipRoutes())
	isUp(u.t, s, 10*time.Second)
	u.lost, u.was = u.watch(), u.story()
}

// check fails the test where the state has changed.
func (u *untouched) check() {
	u.t.Helper()
	if now := u.story(); now != u.was || u.lost() > 0 {
		u.t.Errorf("the other router noticed: it lost %d routes; its sessions were\n%s\nand are\n%s", u.lost(), u.was, now)
	}
}

// configure changes a router that runs: lines of FRR's bgp section, or a text of
// BIRD's in place of another.
func (r *router) configure(frr []string, bird ...string) {
	r.t.Helper()
	if conf := filepath.Join(r.dir, "bird.conf"); exists(conf) {
		text, err := os.ReadFile(conf)
		must(r.t, err)
		must(r.t, os.WriteFile(conf, []byte(strings.NewReplacer(bird...).Replace(string(text))), 0o644))
		if out := r.ask("configure"); !strings.Contains(out, "econfigur") {
			r.t.Fatal(out)
		}
		return
	}
	args := []string{"--vty_socket", r.dir, "-c", "configure terminal", "-c", fmt.Sprintf("router bgp %d", routerASN)}
	for _, l := range frr {
		args = append(args, "-c", l)
	}
	if out, err := exec.Command("vtysh", args...).CombinedOutput(); err != nil || strings.Contains(string(out), "%") {
		r.t.Fatalf("%v\n%s", err, out)
	}
}

// exists reports whether a file is there.
func exists(file string) bool { _, err := os.Stat(file); return err == nil }

func TestAPasswordIsRotatedWithoutARestartAndNoOtherSessionNotices(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router, other := d.start(newRouter(t), neighbour{password: "old-s3cret", lines: d.lines}), newUntouched(t, name)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(append(router.vips(password("old-s3cret")), other.vips(patient)...)...)))
			router.holds(15*time.Second, router.vipRoutes())
			other.begin(speaker)

			router.configure([]string{
				fmt.Sprintf("neighbor %v password new-s3cret", router.Local4), fmt.Sprintf("neighbor %v password new-s3cret", router.Local6),
			}, "old-s3cret", "new-s3cret")
			must(t, speaker.Set(t.Context(), configOf(append(router.vips(password("new-s3cret")), other.vips(patient)...)...)))
			began := time.Now()
			eventually(t, 15*time.Second, "both ends use the new password", router.established(2))
			router.holds(5*time.Second, router.vipRoutes())
			t.Log("up with the new password after", time.Since(began))
			other.check()
		})
	}
}

func TestASessionWithoutItsPasswordStaysDownAndComesUpWhenItIsThere(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router, other := d.start(newRouter(t), neighbour{password: "s3cret"}), newUntouched(t, name)
			speaker := newSpeaker(t)
			if err := speaker.Set(t.Context(), configOf(append(router.vips(password("")), other.vips(patient)...)...)); err == nil {
				t.Error("a missing password is no error")
			}
			other.holds(15*time.Second, other.vipRoutes())
			other.s, other.lost = speaker, other.watch()
			for _, st := range speaker.State(t.Context()) {
				if st.Router == router.ns && (st.Up || st.Cause != PasswordMissing) {
					t.Errorf("without its password: %v", st)
				}
			}
			eventually(t, 10*time.Second, "the other router's sessions are up", other.established(2))
			other.was = other.story()
			must(t, speaker.Set(t.Context(), configOf(append(router.vips(password("s3cret")), other.vips(patient)...)...)))
			router.holds(15*time.Second, router.vipRoutes())
			other.check()
		})
	}
}

func TestALinkThatGoesDownAndUpBringsItsRoutesBack(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router, other := d.start(newRouter(t), neighbour{lines: d.lines}), newUntouched(t, name)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(append(router.vips(nil), other.vips(patient)...)...)))
			router.holds(15*time.Second, router.vipRoutes())
			other.begin(speaker)

			run(t, "ip", "-n", router.ns, "link", "set", "eth0", "down")
			router.holds(5*time.Second, map[string]string{})
			eventually(t, 10*time.Second, "both sessions are down", func() (bool, string) {
				st := fmt.Sprint(speaker.State(t.Context()))
				return strings.Count(st, "down since") == 2, st
			})
			other.check()
			run(t, "ip", "-n", router.ns, "link", "set", "eth0", "up")
			run(t, "ip", "-n", router.ns, "addr", "replace", router.Addr6.String()+"/64", "dev", "eth0", "nodad")
			t.Log("routes are back after", router.holds(30*time.Second, router.vipRoutes()))
			other.check()
		})
	}
}

func TestARouterThatWasRestartedHasItsRoutesBack(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router, other := dialect.start(newRouter(t), neighbour{lines: dialect.lines}), newUntouched(t, name)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(append(router.vips(nil), other.vips(patient)...)...)))
			router.holds(15*time.Second, router.vipRoutes())
			other.begin(speaker)

			router.kill()
			eventually(t, 10*time.Second, "both sessions report that no router is there", func() (bool, string) {
				st := fmt.Sprint(speaker.State(t.Context()))
				return strings.Count(st, "down since") == 2 && strings.Count(st, string(Refused)) == 2, st
			})
			dialect.start(router, neighbour{lines: dialect.lines})
			eventually(t, 20*time.Second, "both sessions are up", router.established(2))
			router.holds(5*time.Second, router.vipRoutes())
			other.check()
		})
	}
}

// routerBehindAnother is a router behind another one, which only forwards. The addresses by which
// it reaches that are its gates.
func routerBehindAnother(t testing.TB) (tor, between *router, gate4, gate6 netip.Addr) {
	between, tor = newRouter(t), newRouter(t)
	run(t, "ip", "-n", tor.ns, "link", "del", "eth0") // and our end with it
	run(t, "ip", "-n", between.ns, "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", tor.ns)
	gate4, gate6 = tor.Local4, tor.Local6
	for _, a := range []struct{ ns, dev, v4, v6 string }{
		{between.ns, "eth1", gate4.String(), gate6.String()}, {tor.ns, "eth0", tor.Addr4.String(), tor.Addr6.String()},
	} {
		run(t, "ip", "-n", a.ns, "link", "set", a.dev, "up")
		run(t, "ip", "-n", a.ns, "addr", "add", a.v4+"/24", "dev", a.dev)
		run(t, "ip", "-n", a.ns, "addr", "add", a.v6+"/64", "dev", a.dev, "nodad")
	}
	run(t, "ip", "netns", "exec", between.ns, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	run(t, "ip", "route", "add", tor.Addr4.String(), "via", between.Addr4.String())
	run(t, "ip", "route", "add", tor.Addr6.String(), "via", between.Addr6.String())
	run(t, "ip", "-n", tor.ns, "route", "add", between.Local4.String(), "via", gate4.String())
	run(t, "ip", "-n", tor.ns, "route", "add", between.Local6.String(), "via", gate6.String())
	tor.Local4, tor.Local6 = between.Local4, between.Local6
	return tor, between, gate4, gate6
}

func TestARouterFurtherAwayIsReachedOverSeveralHops(t *testing.T) {
	tests := []struct {
		name      string
		change    func(*SessionConfig)
		frr, bird string
		bfd       bool
	}{
		{"plain", nil, "ebgp-multihop 2\n", " multihop 2;\n", false},
		{"with TTL security", ttlSecurity, "ttl-security hops 2\n", " multihop 2; ttl security on;\n", false},
		{"with BFD", func(c *SessionConfig) { c.Session.BFD = pace }, "ebgp-multihop 2\nbfd profile fast\n", " multihop 2; bfd on;\n", true},
	}
	for _, tt := range tests {
		for _, dialect := range []string{"frr", "bird"} {
			t.Run(tt.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				router, between, gate4, gate6 := routerBehindAnother(t)
				if dialect == "frr" {
					n := neighbour{lines: tt.frr}
					if tt.bfd {
						n.daemons = []string{"bfdd"}
					}
					router.frr(n)
				} else {
					top := fmt.Sprintf("protocol static { ipv4; route %v/32 via %v; }\nprotocol static { ipv6; route %v/128 via %v; }\n", router.Local4, gate4, router.Local6, gate6)
					if tt.bfd {
						top += "protocol bfd { multihop { interval 300 ms; multiplier 4; }; }\n"
					}
					router.bird(neighbour{lines: tt.bird, top: top})
				}
				speaker := newSpeaker(t)
				config := configOf(router.vips(func(c *SessionConfig) {
					c.Session.Multihop = 2
					if tt.change != nil {
						tt.change(c)
					}
				})...)
				must(t, speaker.Set(t.Context(), config))
				eventually(t, 20*time.Second, "both VIPs are reached by way of the hop between", func() (bool, string) {
					got := router.routes()
					return got["203.0.113.10"] == gate4.String() && got["2001:db8:113::10"] == gate6.String(), fmt.Sprint(got)
				})
				if tt.bfd {
					bfdUp(t, speaker)
					between.dropPackets()
					t.Log("withdrawn after", eventually(t, 6*time.Second, "the VIPs are gone", func() (bool, string) {
						got := router.routes()
						return got["203.0.113.10"]+got["2001:db8:113::10"] == "", fmt.Sprint(got)
					}))
				}
			})
		}
	}
}
