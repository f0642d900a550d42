//go:build privileged && timing

package bgp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// often is how many times each is measured; the median counts.
const often = 5

// deaths is how many times a machine dies in each way: the times scatter by 80 ms.
const deaths = 21

// median reports the median of some durations.
func median(b *testing.B, unit string, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	b.ReportMetric(0, "ns/op") // leaves it out
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, unit)
}

// BenchmarkBackAfterReset measures how long a session is down when its router resets it
// ("ms/back"), and until the router has the route again ("ms/route").
func BenchmarkBackAfterReset(b *testing.B) {
	for name, reset := range map[string]string{"frr": "clear bgp *", "bird": "restart all"} {
		b.Run(name, func(b *testing.B) {
			d := dialects[name]
			router := d.start(newRouter(b), neighbour{lines: d.lines})
			speaker := newSpeaker(b)
			speaker.undamped = true
			must(b, speaker.Set(b.Context(), configOf(plan(router.session4(), "203.0.113.10/32"))))
			there := map[string]string{"203.0.113.10": router.Local4.String()}
			router.holds(15*time.Second, there)
			var back, route []time.Duration
			for i := range often {
				begin := time.Now()
				router.ask(reset)
				eventually(b, 5*time.Second, "the session went down", func() (bool, string) {
					st := speaker.State(b.Context())
					return st[0].Losses == uint64(i+1), fmt.Sprint(st)
				})
				isUp(b, speaker, 10*time.Second)
				back = append(back, time.Since(begin))
				router.holds(10*time.Second, there)
				route = append(route, time.Since(begin))
			}
			median(b, "ms/back", back)
			median(b, "ms/route", route)
		})
	}
}

// BenchmarkDeadMachine measures how long FRR keeps the route of a machine whose packets
// are all lost, without a FIN: by a hold time of 3 s, by BFD of 100 ms x 3, and by the
// same BFD when the machine is FRR as well. They take turns.
func BenchmarkDeadMachine(b *testing.B) {
	pace = fast
	byTime := dialects["frr"].start(newRouter(b), neighbour{lines: dialects["frr"].lines})
	byBFD, byFRR := newRouter(b).withBFD("frr", ""), newRouter(b).withBFD("frr", "")
	held := configOf(plan(byTime.session4(), "203.0.113.10/32"))
	held.Sessions[0].Session.HoldTime = 3 * time.Second
	must(b, newSpeaker(b).Set(b.Context(), held))
	watching := newSpeaker(b)
	watching.undamped = true
	must(b, watching.Set(b.Context(), configOf(withFastBFD(plan(byBFD.session4(), "203.0.113.10/32")))))
	machine := byFRR.frrMachine()

	all := []*death{
		{name: "hold time", router: byTime, ready: func() {}},
		{name: "BFD", router: byBFD, ready: func() { bfdUp(b, watching) }},
		{name: "BFD of FRR", router: byFRR, ready: func() {
			eventually(b, 15*time.Second, "BFD is up", func() (bool, string) {
				out := machine.ask("show bfd peers json")
				return strings.Contains(out, `"status":"up"`), out
			})
		}},
	}
	for range deaths {
		for _, d := range all {
			d.kill()
		}
	}
	for _, d := range all {
		b.Run(d.name, func(b *testing.B) {
			median(b, "ms/withdrawn", d.took)
			b.ReportMetric(float64(d.took[0].Microseconds())/1000, "ms/least")
			b.ReportMetric(float64(d.took[len(d.took)-1].Microseconds())/1000, "ms/most")
		})
	}
}

// death is a way in which a router finds out, and how long it took.
type death struct {
	name   string
	router *router
	ready  func() // waits until the way is in place
	took   []time.Duration
}

// kill cuts the machine off, and restores the link once its route is gone.
func (d *death) kill() {
	d.router.holds(30*time.Second, map[string]string{"203.0.113.10": d.router.Local4.String()})
	d.ready()
	time.Sleep(1500 * time.Millisecond) // the last keepalive is of any age
	d.router.dropPackets()
	d.took = append(d.took, d.router.holds(10*time.Second, map[string]string{}))
	d.router.passPackets()
}

// frrMachine starts FRR in our place at the other end of the router's link.
func (r *router) frrMachine() *router {
	r.t.Helper()
	tor := &router{t: r.t, ns: r.ns + "-m", Addr4: r.Local4}
	tor.dir = "/run/" + tor.ns
	must(r.t, os.Mkdir(tor.dir, 0o755))
	run(r.t, "ip", "netns", "add", tor.ns)
	r.t.Cleanup(func() { tor.kill(); run(r.t, "ip", "netns", "del", tor.ns) })
	run(r.t, "ip", "link", "set", r.link, "netns", tor.ns)
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"link", "set", r.link, "up"}, {"addr", "add", r.Local4.String() + "/24", "dev", r.link}} {
		run(r.t, "ip", append([]string{"-n", tor.ns}, args...)...)
	}
	conf := fmt.Sprintf(`router bgp %d
 bgp router-id %v
 no bgp ebgp-requires-policy
 no bgp network import-check
 timers bgp 3 9
 neighbor %v remote-as %d
 neighbor %v timers connect 1
 neighbor %v bfd profile fast
 address-family ipv4 unicast
  network 203.0.113.10/32
 exit-address-family
`, ourASN, r.Local4, r.Addr4, routerASN, r.Addr4, r.Addr4)
	must(r.t, os.WriteFile(filepath.Join(tor.dir, "bgpd.conf"), []byte(conf), 0o644))
	must(r.t, os.WriteFile(filepath.Join(tor.dir, "zebra.conf"), nil, 0o644))
	tor.ask = func(command string) string {
		out, _ := exec.Command("vtysh", "--vty_socket", tor.dir, "-c", command).Output()
		return string(out)
	}
	run(r.t, "chown", "-R", "frr:frrvty", tor.dir)
	tor.startFRR(neighbour{daemons: []string{"bfdd"}})
	return tor
}
