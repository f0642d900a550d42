//go:build privileged

package bgp

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/routerconfig"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// agreed holds the parameters of both ends; empty fields mean the defaults.
type agreed struct {
	terms   string // of bgp
	router  string // further fields of the router
	asn     int    // the router's
	bare    bool   // without password and TTL security
	only6   bool   // the router is known by its IPv6 address alone
	looping bool   // the router is known by addresses of its loopback
}

// inventory returns an inventory of one machine with this router and the parameters of both ends.
func (r *router) inventory(t testing.TB, row agreed) *inventory.Inventory {
	t.Helper()
	terms := row.terms
	if !row.bare {
		terms += `, ttlSecurity: true, passwordFrom: {secret: bgp, key: tor}`
	}
	at4, at6 := r.Addr4, r.Addr6
	if row.looping {
		at4, at6 = r.loopback()
	}
	addresses := fmt.Sprintf(`%v, "%v"`, at4, at6)
	if row.only6 {
		addresses = fmt.Sprintf("%q", at6)
	}
	text := fmt.Sprintf(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: %d, holdTime: 9s%s}
  bfdProfiles: [{name: calm, interval: %v, multiplier: %d}]
  routers: [{name: tor, addresses: [%s], asn: %d%s}]
  pools:
    - {name: plain, addresses: [203.0.113.0/26, "2001:db8:113:0::/120"]}
    - {name: dressed, addresses: [203.0.113.64/26, "2001:db8:113:1::/120"]}
    - {name: wide, addresses: [203.0.113.128/26, "2001:db8:113:2::/120"], advertise: {aggregate: {ipv4: 28, ipv6: 124}}}
    - {name: last, addresses: [203.0.113.192/26, "2001:db8:113:3::/120"], advertise: {aggregate: {ipv4: 26, ipv6: 120}}}
  racks:
    - {name: r1, subnets: [%v, "%v"], machines: [{name: m1, addresses: [%v, "%v"]}]}
`, ourASN, terms, pace.Interval, pace.Multiplier, addresses, cmp.Or(row.asn, routerASN), row.router,
		netip.PrefixFrom(r.Local4, 24).Masked(), netip.PrefixFrom(r.Local6, 64).Masked(), r.Local4, r.Local6)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	must(t, problems.Err())
	return inv
}

// loopback gives the router addresses that lie behind those of its link.
func (r *router) loopback() (v4, v6 netip.Addr) {
	v4, v6 = netip.MustParseAddr(fmt.Sprintf("10.97.%d.1", r.n)), netip.MustParseAddr(fmt.Sprintf("fd97:%x::1", r.n))
	for _, at := range []struct{ lo, via netip.Addr }{{v4, r.Addr4}, {v6, r.Addr6}} {
		run(r.t, "ip", "-n", r.ns, "addr", "add", at.lo.String(), "dev", "lo")
		run(r.t, "ip", "route", "add", at.lo.String(), "via", at.via.String(), "dev", r.link)
	}
	return v4, v6
}

// printed starts a router with what router-config prints for it, and nothing else
// but its own lines, if any.
func (r *router) printed(t testing.TB, inv *inventory.Inventory, language string, dynamic bool, own ...string) {
	t.Helper()
	tor, _ := inv.Router("tor")
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
		r.startFRR(neighbour{daemons: []string{"bfdd"}, port: tor.Port})
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

// rib returns the router's BGP table.
func (r *router) rib(language string) string {
	switch language {
	case "frr":
		v4, v6 := r.ask("show bgp ipv4 unicast"), r.ask("show bgp ipv6 unicast")
		if v4 == "" || v6 == "" {
			return ""
		}
		return v4 + v6
	case "bird":
		return r.ask("show route")
	}
	return r.ask("show rib")
}

// localTraffic returns a Service with local traffic in each pool with an aggregate.
func localTraffic(vips ...string) (offers []advertise.Offer) {
	for _, vip := range vips {
		offers = append(offers, advertise.Offer{Service: lb.ServiceKey{Namespace: "prod", Name: "local"}, VIP: netip.MustParseAddr(vip), LocalTraffic: true, Endpoints: advertise.Endpoints{Local: 1, Any: 1}})
	}
	return offers
}

// defaultOf gives a router a default route of each family to announce.
var defaultOf = map[string]string{
	"frr": `router bgp 65010
 no bgp network import-check
 address-family ipv4 unicast
  network 0.0.0.0/0
 exit-address-family
 address-family ipv6 unicast
  network ::/0
 exit-address-family
`,
	"bird":     "protocol static { ipv4; route 0.0.0.0/0 unreachable; }\nprotocol static { ipv6; route ::/0 unreachable; }\n",
	"openbgpd": "network 0.0.0.0/0\nnetwork ::/0\n",
}

// hasAllPrinted waits until the router has all routes of both families.
func hasAllPrinted(t *testing.T, r *router, language string) {
	t.Helper()
	eventually(t, 10*time.Second, "the router has all of both families", func() (bool, string) {
		got := r.rib(language)
		for _, want := range []string{"203.0.113.10/32", "203.0.113.128/28", "203.0.113.139/32", "203.0.113.192/26", "203.0.113.203/32",
			"2001:db8:113::10/128", "2001:db8:113:2::10/124", "2001:db8:113:2::19/128", "2001:db8:113:3::/120", "2001:db8:113:3::19/128"} {
			if !strings.Contains(got, want) {
				return false, "no " + want + " in\n" + got
			}
		}
		return true, ""
	})
}

func TestRoutersRunWithWhatIsPrintedForThem(t *testing.T) {
	const restart = ", gracefulRestart: {restartTime: 30s}"
	for name, tt := range map[string]struct {
		agreed
		languages []string
		dynamic   bool
		learns    bool
	}{
		"of another AS":                    {agreed{terms: restart}, []string{"frr", "bird", "openbgpd"}, false, false},
		"of another AS, dynamic":           {agreed{terms: restart}, []string{"frr", "bird"}, true, false},
		"of the same AS, with BFD":         {agreed{terms: restart + ", bfd: calm", asn: ourASN}, []string{"frr", "bird"}, false, false},
		"of the same AS, to learn from":    {agreed{terms: restart + ", learn: default", asn: ourASN}, []string{"frr", "bird", "openbgpd"}, false, true},
		"further away":                     {agreed{terms: restart + ", multihop: 2", looping: true, bare: true}, []string{"frr", "bird", "openbgpd"}, false, false},
		"of another port, over IPv6 alone": {agreed{terms: `, gracefulRestart: "off"`, router: ", port: 1790", only6: true}, []string{"frr", "bird", "openbgpd"}, false, false},
	} {
		for _, language := range tt.languages {
			t.Run(language+" "+name, func(t *testing.T) {
				t.Parallel()
				router := newRouter(t)
				inv := router.inventory(t, tt.agreed)
				own := ""
				if tt.learns {
					own = defaultOf[language]
				}
				router.printed(t, inv, language, tt.dynamic, own)
				speaker := newSpeaker(t)
				config := planned(t, inv, localTraffic("203.0.113.139", "203.0.113.203", "2001:db8:113:2::19", "2001:db8:113:3::19")...)
				for i := range config.Sessions {
					if !tt.bare {
						config.Sessions[i].Password = "open-sesame"
					}
				}
				must(t, speaker.Set(t.Context(), config))
				isUp(t, speaker, 20*time.Second)
				hasAllPrinted(t, router, language)
				if language != "openbgpd" { // which does not write to the kernel
					eventually(t, 5*time.Second, "its kernel has the machine as next hop", func() (bool, string) {
						got := router.routes()
						return got["203.0.113.10"] == router.Local4.String() && got["2001:db8:113::10"] == router.Local6.String(), fmt.Sprint(got)
					})
				}
				if strings.Contains(tt.terms, "bfd:") {
					bfdUp(t, speaker)
				}
				learned := 0
				if tt.learns {
					learned = 1
				}
				eventually(t, 10*time.Second, "a default route comes over each session where it is to be learned", func() (bool, string) {
					st := speaker.State(t.Context())
					return !slices.ContainsFunc(st, func(st SessionState) bool { return !st.Up || st.Accepted != learned }), fmt.Sprint(st)
				})
				must(t, speaker.Leave(t.Context()))
				withdrew := func() (bool, string) {
					got := router.rib(language)
					return got != "" && (!strings.Contains(got, "203.0.113.10/32") || !strings.Contains(got, "2001:db8:113::10/128")), got
				}
				if strings.Contains(tt.terms, restart) {
					never(t, 1500*time.Millisecond, "the router dropped the routes of a machine whose agent restarts", withdrew)
				} else {
					eventually(t, 5*time.Second, "the router drops the routes of a machine without graceful restart", withdrew)
				}
			})
		}
	}
}
