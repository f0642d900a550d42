//go:build privileged

package bgp

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb/advertise"
)

// fabric is a rack's router with two machines and a neighbour upstream. The router
// has a default route to the neighbour, and the neighbour a route to all pods through
// the router: what the router neither holds nor drops goes round in a circle.
type fabric struct {
	tor, up        *router
	below4, below6 netip.Addr // the router's addresses towards the neighbour
	above4, above6 netip.Addr // the neighbour's
	inv            *inventory.Inventory
}

// upASN is the AS number of the neighbour upstream.
const upASN = 65200

// newFabric starts the links of a fabric, without its daemons.
func newFabric(t testing.TB) *fabric {
	t.Helper()
	site := &fabric{tor: newRouter(t), up: newRouter(t)}
	n := site.tor.n
	site.below4, site.above4 = netip.MustParseAddr(fmt.Sprintf("10.98.%d.1", n)), netip.MustParseAddr(fmt.Sprintf("10.98.%d.2", n))
	site.below6, site.above6 = netip.MustParseAddr(fmt.Sprintf("fd98:%x::1", n)), netip.MustParseAddr(fmt.Sprintf("fd98:%x::2", n))
	run(t, "ip", "link", "add", "name", "above", "netns", site.tor.ns, "type", "veth", "peer", "name", "below", "netns", site.up.ns)
	for _, end := range []struct {
		ns, dev            string
		v4, v6, via4, via6 netip.Addr
		to4, to6           string
	}{
		{site.tor.ns, "above", site.below4, site.below6, site.above4, site.above6, "default", "default"},
		{site.up.ns, "below", site.above4, site.above6, site.below4, site.below6, "10.244.0.0/16", "fd00:244::/48"},
	} {
		run(t, "ip", "-n", end.ns, "addr", "add", end.v4.String()+"/24", "dev", end.dev)
		run(t, "ip", "-n", end.ns, "addr", "add", end.v6.String()+"/64", "dev", end.dev, "nodad")
		run(t, "ip", "-n", end.ns, "link", "set", end.dev, "up")
		run(t, "ip", "netns", "exec", end.ns, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
			"net.ipv4.conf.all.accept_local=1") // a packet of its own that comes back is sent on, like another's
		run(t, "ip", "-n", end.ns, "route", "add", end.to4, "via", end.via4.String())
		run(t, "ip", "-n", end.ns, "-6", "route", "add", end.to6, "via", end.via6.String())
	}
	second4, second6 := site.tor.Addr4.Next(), site.tor.Addr6.Next()
	run(t, "ip", "addr", "add", second4.String()+"/24", "dev", site.tor.link)
	run(t, "ip", "addr", "add", second6.String()+"/64", "dev", site.tor.link, "nodad")
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: %d, holdTime: 9s}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"], nodePrefix: {ipv4: 24, ipv6: 64}}
  routers: [{name: tor, addresses: [%v, "%v"], asn: %d}]
  racks:
    - name: r1
      podCIDRs: [10.244.16.0/20, "fd00:244:0:100::/56"]
      machines:
        - {name: m1, addresses: [%v, "%v"]}
        - {name: m2, addresses: [%v, "%v"]}
  pools: [{name: default, addresses: [203.0.113.0/26]}]
`, ourASN, site.tor.Addr4, site.tor.Addr6, routerASN, site.tor.Local4, site.tor.Local6, second4, second6)})
	must(t, problems.Err())
	site.inv = inv
	return site
}

// ownLines returns the configuration that the router's operator adds for the neighbour upstream.
func (f *fabric) ownLines(language string) string {
	if language == "frr" {
		return fmt.Sprintf(`route-map OWN permit 10
router bgp %[1]d
 neighbor %[3]v remote-as %[2]d
 neighbor %[4]v remote-as %[2]d
 address-family ipv4 unicast
  neighbor %[3]v route-map OWN in
  neighbor %[3]v route-map OWN out
  no neighbor %[4]v activate
 exit-address-family
 address-family ipv6 unicast
  neighbor %[4]v activate
  neighbor %[4]v route-map OWN in
  neighbor %[4]v route-map OWN out
 exit-address-family
`, routerASN, upASN, f.above4, f.above6)
	}
	return fmt.Sprintf(`
protocol bgp own4 { local %[3]v as %[1]d; neighbor %[5]v as %[2]d; ipv4 { import none; export where source ~ [ RTS_BGP, RTS_STATIC ] && !plinth_part4(); }; }
protocol bgp own6 { local %[4]v as %[1]d; neighbor %[6]v as %[2]d; ipv6 { import none; export where source ~ [ RTS_BGP, RTS_STATIC ] && !plinth_part6(); }; }
`, routerASN, upASN, f.below4, f.below6, f.above4, f.above6)
}

// neighbour starts the neighbour upstream, which accepts every route.
func (f *fabric) neighbour(t testing.TB) {
	t.Helper()
	conf := filepath.Join(f.up.dir, "bird.conf")
	must(t, os.WriteFile(conf, fmt.Appendf(nil, `log stderr all;
router id %[5]v;
protocol device { }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; }
protocol bgp tor4 { local %[5]v as %[2]d; neighbor %[3]v as %[1]d; connect retry time 1; error wait time 1, 2; ipv4 { import all; export none; }; }
protocol bgp tor6 { local %[6]v as %[2]d; neighbor %[4]v as %[1]d; connect retry time 1; error wait time 1, 2; ipv6 { import all; export none; }; }
`, routerASN, upASN, f.below4, f.below6, f.above4, f.above6), 0o644))
	f.up.daemonize("bird", "-f", "-c", conf, "-s", filepath.Join(f.up.dir, "bird.ctl"), "-P", filepath.Join(f.up.dir, "bird.pid"))
}

// machine returns what the agent of a machine announces: its pod CIDRs, if it has some.
func (f *fabric) machine(t testing.TB, name string, pods bool) Config {
	t.Helper()
	machine, ok := f.inv.Machine(name)
	if !ok {
		t.Fatalf("no machine %s", name)
	}
	view := advertise.View{Inventory: f.inv, Machine: machine, ProxyHealthy: true}
	if pods {
		view.PodCIDRs = machine.PodCIDRs
	}
	c := Config{RouterID: machine.Addresses[0], Within: f.inv.PodNetwork.CIDRs}
	for _, s := range advertise.PlanOf(view).Sessions {
		c.Sessions = append(c.Sessions, SessionConfig{SessionPlan: s})
	}
	return c
}

// upstreamHolds waits until the neighbour's kernel has exactly these routes.
func (f *fabric) upstreamHolds(t testing.TB, want ...string) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("the neighbour has %v", want), func() (bool, string) {
		got := slices.Sorted(maps.Keys(f.up.routes()))
		return slices.Equal(got, want), fmt.Sprint(got)
	})
}

// loops reports whether a packet of the neighbour for the address goes round until
// its time to live is over.
func (f *fabric) loops(addr string) (bool, string) {
	out, _ := exec.Command("ip", "netns", "exec", f.up.ns, "ping", "-c", "1", "-W", "1", addr).CombinedOutput()
	return strings.Contains(string(out), "exceeded"), string(out)
}

func TestTheFabricReceivesOneBlockARackAndNothingLoops(t *testing.T) {
	for _, language := range []string{"frr", "bird"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			fabric := newFabric(t)
			fabric.tor.printed(t, fabric.inv, language, false, fabric.ownLines(language))
			fabric.neighbour(t)
			one, two := newSpeaker(t), newSpeaker(t)
			must(t, one.Set(t.Context(), fabric.machine(t, "m1", true)))
			must(t, two.Set(t.Context(), fabric.machine(t, "m2", true)))
			eventually(t, 20*time.Second, "the router has the pods of both machines", func() (bool, string) {
				got := fmt.Sprint(fabric.tor.routes())
				return strings.Contains(got, "10.244.16.0/24:"+fabric.tor.Local4.String()) && strings.Contains(got, "10.244.17.0/24:"+fabric.tor.Addr4.Next().String()) &&
					strings.Contains(got, "fd00:244:0:100::/64:") && strings.Contains(got, "fd00:244:0:101::/64:"), got
			})
			fabric.upstreamHolds(t, "10.244.16.0/20", "fd00:244:0:100::/56")

			for _, outside := range []string{"10.244.200.1", "fd00:244:0:f000::1"} {
				if yes, out := fabric.loops(outside); !yes {
					t.Errorf("the trap is not one: a packet for %s of no rack does not circle:\n%s", outside, out)
				}
			}
			for _, nobodys := range []string{"10.244.31.1", "fd00:244:0:1ff::1"} {
				if yes, out := fabric.loops(nobodys); yes {
					t.Errorf("a packet for %s, which no machine of the rack holds, circles:\n%s", nobodys, out)
				}
			}

			must(t, one.Set(t.Context(), fabric.machine(t, "m1", false)))
			fabric.upstreamHolds(t, "10.244.16.0/20", "fd00:244:0:100::/56")
			must(t, two.Set(t.Context(), fabric.machine(t, "m2", false)))
			if language == "frr" { // which announces a block only while it has a part of it
				fabric.upstreamHolds(t)
				return
			}
			eventually(t, 10*time.Second, "the router has no pods left", func() (bool, string) {
				got := fmt.Sprint(fabric.tor.routes())
				return !strings.Contains(got, "/24:") && !strings.Contains(got, "/64:"), got
			})
			if yes, out := fabric.loops("10.244.16.1"); yes {
				t.Errorf("a packet for a rack without machines circles:\n%s", out)
			}
		})
	}
}
