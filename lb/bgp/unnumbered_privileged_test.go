//go:build privileged

package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory/document"
)

// linkLocalIn waits for the link-local address of an interface.
func linkLocalIn(t testing.TB, device string, where ...string) (addr netip.Addr) {
	t.Helper()
	eventually(t, 5*time.Second, device+" has a link-local address", func() (bool, string) {
		out, _ := exec.Command("ip", append(where, "-6", "-o", "addr", "show", "dev", device, "scope", "link", "-tentative")...).Output()
		if f := strings.Fields(string(out)); len(f) > 3 {
			addr = netip.MustParsePrefix(f[3]).Addr()
		}
		return addr.IsValid(), string(out)
	})
	return addr
}

// unnumbered starts a router that knows the machine by its link-local address alone,
// with a password and BFD, as docs/guides/routers.md has it.
func (r *router) unnumbered(t testing.TB, dialect string, machine netip.Addr) {
	t.Helper()
	if dialect == "frr" {
		text := fmt.Sprintf(`log stdout
router bgp %[1]d
 bgp router-id %[2]v
 no bgp ebgp-requires-policy
 neighbor %[3]v remote-as %[4]d
 neighbor %[3]v interface eth0
 neighbor %[3]v passive
 neighbor %[3]v password open-sesame
 neighbor %[3]v capability extended-nexthop
 neighbor %[3]v bfd profile fast
 address-family ipv6 unicast
  neighbor %[3]v activate
 exit-address-family
`, routerASN, r.Addr4, machine, ourASN)
		must(t, os.WriteFile(filepath.Join(r.dir, "bgpd.conf"), []byte(text), 0o644))
		must(t, os.WriteFile(filepath.Join(r.dir, "zebra.conf"), nil, 0o644))
		run(t, "chown", "-R", "frr:frrvty", r.dir)
		r.ask = func(command string) string {
			out, _ := exec.Command("vtysh", "--vty_socket", r.dir, "-c", command).Output()
			return string(out)
		}
		r.startFRR(neighbour{daemons: []string{"bfdd"}})
		return
	}
	conf, ctl := filepath.Join(r.dir, "bird.conf"), filepath.Join(r.dir, "bird.ctl")
	text := fmt.Sprintf(`log stderr all;
router id %v;
protocol device { scan time 1; }
protocol bfd { interface "*" { min rx interval 300 ms; min tx interval 300 ms; multiplier 4; }; }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol bgp m1 { local as %d; neighbor %v as %d; interface "eth0"; passive on; password "open-sesame"; bfd on;
  graceful restart aware; error wait time 1, 10;
  ipv4 { extended next hop on; import all; export none; }; ipv6 { import all; export none; }; }
`, r.Addr4, routerASN, machine, ourASN)
	must(t, os.WriteFile(conf, []byte(text), 0o644))
	r.ask = func(command string) string {
		out, _ := exec.Command("birdc", "-s", ctl, command).Output()
		return string(out)
	}
	r.daemonize("bird", "-f", "-c", conf, "-s", ctl, "-P", filepath.Join(r.dir, "bird.pid"))
}

// linkLocalConfig returns the Config of a machine of an inventory with such a router.
func linkLocalConfig(t testing.TB, router netip.Addr) Config {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: %d, holdTime: 9s, passwordFrom: {secret: bgp, key: tor}, bfd: fast}
  bfdProfiles: [{name: fast, interval: 300ms, multiplier: 4}]
  routers: [{name: tor, address: "%v", asn: %d}]
  pools: [{name: all, addresses: [203.0.113.0/24, "2001:db8:113::/112"]}]
  racks: [{name: r1, machines: [{name: m1, addresses: [192.0.2.1, "2001:db8::1"]}]}]
`, ourASN, router, routerASN)})
	must(t, problems.Err())
	m, _ := inv.Machine("m1")
	c := configOf(plan(inv.Sessions(m)[0], "203.0.113.10/32", "2001:db8:113::10/128"))
	c.Sessions[0].Password = "open-sesame"
	return c
}

// withLinkLocalRouter starts a router, and returns what a machine has with it and which
// routes the router is to hold.
func withLinkLocalRouter(t testing.TB, dialect string) (r *router, c Config, routes map[string]string) {
	t.Helper()
	r = newRouter(t)
	machine, at := linkLocalIn(t, r.link), linkLocalIn(t, "eth0", "-n", r.ns)
	r.unnumbered(t, dialect, machine)
	return r, linkLocalConfig(t, at.WithZone(r.link)), map[string]string{"203.0.113.10": machine.String(), "2001:db8:113::10": machine.String()}
}

func TestALinkLocalSessionCarriesBothFamiliesWithPasswordAndBFD(t *testing.T) {
	for _, dialect := range []string{"frr", "bird"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router, config, both := withLinkLocalRouter(t, dialect)
			first := NewSpeaker(Options{Log: logger(t), ListenPort: 179}) // this session only connects
			must(t, first.Set(t.Context(), config))
			router.holds(20*time.Second, both)
			bfdUp(t, first)

			lost := router.watch()
			must(t, first.Leave(context.Background()))
			s := newSpeaker(t)
			config.Restarting = true
			must(t, s.Set(t.Context(), config))
			bfdUp(t, s)
			never(t, 2*time.Second, "the router lost a route to a restart", func() (bool, string) {
				got := router.routes()
				return lost() > 0 || fmt.Sprint(got) != fmt.Sprint(both), fmt.Sprint(got)
			})
			router.dropPackets()
			t.Log("withdrawn after", router.holds(6*time.Second, map[string]string{}))
		})
	}
}

// hardware returns the hardware address of an interface.
func hardware(t testing.TB, device string, where ...string) string {
	t.Helper()
	return strings.Fields(run(t, "ip", append(where, "-br", "link", "show", "dev", device)...))[2]
}

// tentative takes our end of the link down and up. For some seconds the kernel makes sure
// that nobody else has its link-local address, which cannot be used before.
func (r *router) tentative() {
	r.t.Helper()
	run(r.t, "sysctl", "-q", "-w", "net.ipv6.conf."+r.link+".dad_transmits=2")
	run(r.t, "ip", "link", "set", r.link, "down")
	run(r.t, "ip", "link", "set", r.link, "up")
	eventually(r.t, 5*time.Second, "the address is back", func() (bool, string) {
		out := run(r.t, "ip", "-6", "-o", "addr", "show", "dev", r.link, "scope", "link")
		return strings.Contains(out, "tentative"), out
	})
}

func TestALinkLocalSessionWaitsForItsLink(t *testing.T) {
	t.Parallel()
	router, c, both := withLinkLocalRouter(t, "bird")
	run(t, "sysctl", "-q", "-w", "net.ipv6.conf."+router.link+".disable_ipv6=1")
	s := newSpeaker(t)
	if err := s.Set(t.Context(), c); err == nil {
		t.Error("it reports no error without an address on the link")
	}
	if st := s.State(t.Context())[0]; st.Cause != Unreachable || !strings.Contains(st.Detail, router.link) {
		t.Errorf("%s: %s", st.Cause, st.Detail)
	}
	run(t, "sysctl", "-q", "-w", "net.ipv6.conf."+router.link+".disable_ipv6=0")
	router.holds(30*time.Second, both)
}
