//go:build privileged

package bgp

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/routerconfig"
)

// inventory is of one machine with this router, with all that both ends must agree on.
func (r *router) inventory(t testing.TB) *inventory.Inventory {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: %d, holdTime: 9s, gracefulRestart: {restartTime: 30s}, ttlSecurity: true, passwordFrom: {secret: bgp, key: tor}}
  routers: [{name: tor, addresses: [%v, "%v"], asn: %d}]
  pools:
    - {name: plain, addresses: [203.0.113.0/26, "2001:db8:113:0::/120"]}
    - {name: dressed, addresses: [203.0.113.64/26, "2001:db8:113:1::/120"]}
    - {name: wide, addresses: [203.0.113.128/26, "2001:db8:113:2::/120"], advertise: {aggregate: {ipv4: 28, ipv6: 124}}}
    - {name: last, addresses: [203.0.113.192/26, "2001:db8:113:3::/120"]}
  racks:
    - {name: r1, subnets: [%v, "%v"], machines: [{name: m1, addresses: [%v, "%v"]}]}
`, ourASN, r.Addr4, r.Addr6, routerASN, netip.PrefixFrom(r.Local4, 24).Masked(), netip.PrefixFrom(r.Local6, 64).Masked(), r.Local4, r.Local6)
	inv, problems := inventory.Load(inventory.Document{Source: "site.yaml", Data: []byte(text)})
	must(t, problems.Err())
	return inv
}

// printed starts a router with what router-config prints for it, and nothing else
// but its own lines, if any.
func (r *router) printed(t testing.TB, inv *inventory.Inventory, language string, dynamic bool, own ...string) {
	t.Helper()
	o := routerconfig.Options{Standalone: true, Dynamic: dynamic, Passwords: map[inventory.SecretKey]string{{Secret: "bgp", Key: "tor"}: "open-sesame"}}
	text, err := routerconfig.Render(inv, "tor", language, o)
	must(t, err)
	text = append(text, strings.Join(own, "")...)
	conf := filepath.Join(r.dir, "router.conf")
	must(t, os.WriteFile(conf, text, 0o600))
	switch language {
	case "frr":
		for _, d := range []string{"bgpd", "zebra"} {
			must(t, os.WriteFile(filepath.Join(r.dir, d+".conf"), nil, 0o644))
		}
		run(t, "chown", "-R", "frr:frrvty", r.dir)
		r.ask = func(command string) string {
			out, _ := exec.Command("vtysh", "--vty_socket", r.dir, "-c", command).Output()
			return string(out)
		}
		r.startFRR(neighbour{})
		if out := run(t, "vtysh", "--vty_socket", r.dir, "-f", conf); strings.Contains(out, "%") {
			t.Fatal(out)
		}
	case "bird":
		ctl := filepath.Join(r.dir, "bird.ctl")
		r.ask = func(command string) string {
			out, _ := exec.Command("birdc", "-s", ctl, command).Output()
			return string(out)
		}
		r.daemonize("bird", "-f", "-c", conf, "-s", ctl, "-P", filepath.Join(r.dir, "bird.pid"))
	case "openbgpd":
		socket := filepath.Join(r.dir, "bgpd.sock")
		must(t, os.WriteFile(conf, append([]byte(fmt.Sprintf("socket %q\n", socket)), text...), 0o600))
		r.ask = func(command string) string {
			out, _ := exec.Command("bgpctl", append([]string{"-s", socket}, strings.Fields(command)...)...).CombinedOutput()
			return string(out)
		}
		who, err := user.Lookup("_openbgpd")
		must(t, err)
		must(t, os.MkdirAll(who.HomeDir, 0o755)) // it confines itself to it
		r.daemonize("/usr/sbin/bgpd", "-d", "-f", conf)
	}
}

// rib asks what the router has learnt from the machine: prefixes in its BGP table.
func (r *router) rib(language string) string {
	switch language {
	case "frr":
		return r.ask("show bgp ipv4 unicast") + r.ask("show bgp ipv6 unicast")
	case "bird":
		return r.ask("show route")
	}
	return r.ask("show rib")
}

func TestRoutersRunWithWhatIsPrintedForThem(t *testing.T) {
	for _, tt := range []struct {
		language string
		dynamic  bool
	}{{"frr", false}, {"bird", false}, {"openbgpd", false}, {"frr", true}, {"bird", true}} {
		t.Run(fmt.Sprintf("%s, dynamic %v", tt.language, tt.dynamic), func(t *testing.T) {
			t.Parallel()
			r := newRouter(t)
			inv := r.inventory(t)
			r.printed(t, inv, tt.language, tt.dynamic)
			s := speaker(t)
			c := planned(t, inv)
			for i := range c.Sessions {
				c.Sessions[i].Password = "open-sesame"
			}
			must(t, s.Set(t.Context(), c))
			isUp(t, s, 20*time.Second)
			eventually(t, 10*time.Second, "the router has all of both families", func() (bool, string) {
				got := r.rib(tt.language)
				for _, want := range []string{"203.0.113.10/32", "203.0.113.128/28", "2001:db8:113::10/128", "2001:db8:113:2::10/124"} {
					if !strings.Contains(got, want) {
						return false, "no " + want + " in\n" + got
					}
				}
				return true, ""
			})
			must(t, s.Leave(t.Context()))
			never(t, 1500*time.Millisecond, "the router forgot the routes of a machine whose agent restarts", func() (bool, string) {
				got := r.rib(tt.language)
				return !strings.Contains(got, "203.0.113.10/32") || !strings.Contains(got, "2001:db8:113::10/128"), got
			})
		})
	}
}
