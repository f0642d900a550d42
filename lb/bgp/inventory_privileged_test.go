//go:build privileged

package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// onOneSubnet starts FRR and BIRD as the routers of one machine on one subnet.
func onOneSubnet(t testing.TB) (one, two *router) {
	t.Helper()
	one, two = newRouter(t), newRouter(t)
	bridge := fmt.Sprintf("pltbr%d", one.n)
	run(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { run(t, "ip", "link", "del", bridge) })
	for _, r := range []*router{one, two} {
		run(t, "ip", "addr", "flush", "dev", r.link)
		run(t, "ip", "link", "set", r.link, "master", bridge)
		run(t, "ip", "-n", r.ns, "addr", "flush", "dev", "eth0", "scope", "global")
	}
	two.Local4, two.Local6 = one.Local4, one.Local6
	two.Addr4, two.Addr6 = one.Addr4.Next(), one.Addr6.Next()
	add := func(dev string, v4, v6 netip.Addr, where ...string) {
		run(t, "ip", append(where, "addr", "add", v4.String()+"/24", "dev", dev)...)
		run(t, "ip", append(where, "addr", "add", v6.String()+"/64", "dev", dev, "nodad")...)
	}
	add(bridge, one.Local4, one.Local6)
	run(t, "ip", "link", "set", bridge, "up")
	add("eth0", one.Addr4, one.Addr6, "-n", one.ns)
	add("eth0", two.Addr4, two.Addr6, "-n", two.ns)
	return one.frr(neighbour{}), two.bird(neighbour{})
}

// site returns the inventory of that machine, with a pool for each way to announce.
func site(t testing.TB, one, two *router) *inventory.Inventory {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: %d, holdTime: 9s}
  communities: {public: "65010:100", lab: "large:65010:1:7"}
  routers:
    - {name: tor-frr, addresses: [%v, "%v"], asn: %d}
    - {name: tor-bird, addresses: [%v, "%v"], asn: %d}
  pools:
    - {name: plain, addresses: [203.0.113.0/26, "2001:db8:113:0::/120"]}
    - {name: dressed, addresses: [203.0.113.64/26, "2001:db8:113:1::/120"], advertise: {communities: [public, lab, no-export], prepend: 2}}
    - {name: wide, addresses: [203.0.113.128/26, "2001:db8:113:2::/120"], advertise: {aggregate: {ipv4: 28, ipv6: 124}}}
    - {name: choosy, addresses: [203.0.113.192/26, "2001:db8:113:3::/120"], advertise: {routers: [tor-bird]}}
  racks:
    - name: r1
      machines: [{name: m1, addresses: [%v, "%v"]}]
`, ourASN, one.Addr4, one.Addr6, routerASN, two.Addr4, two.Addr6, routerASN, one.Local4, one.Local6)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	must(t, problems.Err())
	return inv
}

// planned returns the plan for a Service in each pool, and others.
func planned(t testing.TB, inv *inventory.Inventory, others ...advertise.Offer) Config {
	t.Helper()
	m, ok := inv.Machine("m1")
	if !ok {
		t.Fatal("no machine")
	}
	view := advertise.View{Inventory: inv, Machine: m, ProxyHealthy: true}
	var offers []advertise.Offer
	for _, vips := range []string{
		"203.0.113.10 2001:db8:113::10", "203.0.113.74 2001:db8:113:1::10", "203.0.113.138 2001:db8:113:2::18", "203.0.113.202 2001:db8:113:3::10",
	} {
		for vip := range strings.FieldsSeq(vips) {
			offers = append(offers, advertise.Offer{Service: lb.ServiceKey{Namespace: "prod", Name: vips}, VIP: netip.MustParseAddr(vip), Endpoints: advertise.Endpoints{Any: 1}})
		}
	}
	view.Offers = sorted.Of(append(offers, others...)...)
	config := configOf()
	for _, s := range advertise.PlanOf(view).Sessions {
		config.Sessions = append(config.Sessions, SessionConfig{SessionPlan: s})
	}
	for _, p := range inv.Pools {
		for _, r := range p.Ranges {
			config.Within = append(config.Within, netip.PrefixFrom(r.First, map[bool]int{true: 26, false: 120}[r.First.Is4()]))
		}
	}
	return config
}

// viaMachine returns the machine as next hop of all of these.
func viaMachine(hop4, hop6 netip.Addr, prefixes ...string) map[string]string {
	all := map[string]string{}
	for _, p := range prefixes {
		all[p] = hop4.String()
		if strings.Contains(p, ":") {
			all[p] = hop6.String()
		}
	}
	return all
}

func TestWhatTheInventorySaysOfAPoolIsWhatRoutersSee(t *testing.T) {
	one, two := onOneSubnet(t)
	inv := site(t, one, two)
	s := newSpeaker(t)
	must(t, s.Set(t.Context(), planned(t, inv)))
	all := []string{"203.0.113.10", "203.0.113.74", "203.0.113.128/28", "2001:db8:113::10", "2001:db8:113:1::10", "2001:db8:113:2::10/124"}
	one.holds(15*time.Second, viaMachine(one.Local4, one.Local6, all...))
	chosen := append(all, "203.0.113.202", "2001:db8:113:3::10")
	two.holds(15*time.Second, viaMachine(one.Local4, one.Local6, chosen...))

	for vip, family := range map[string]string{"203.0.113.74/32": "ipv4", "2001:db8:113:1::10/128": "ipv6"} {
		shown := one.ask(fmt.Sprintf("show bgp %s unicast %s", family, vip))
		for _, want := range []string{"65010 65010 65010", "Community: 65010:100 no-export", "Large Community: 65010:1:7"} {
			if !strings.Contains(shown, want) {
				t.Errorf("FRR does not see %q of %s:\n%s", want, vip, shown)
			}
		}
		shown = two.ask("show route for " + vip + " all")
		for _, want := range []string{"BGP.as_path: 65010 65010 65010", "(65010,100) (65535,65281)", "BGP.large_community: (65010, 1, 7)"} {
			if !strings.Contains(shown, want) {
				t.Errorf("BIRD does not see %q of %s:\n%s", want, vip, shown)
			}
		}
	}
}

// Prefixes that no session may announce: addresses of others, of the machine and its routers,
// what is no unicast, and the odd spellings of what is allowed.
var forbidden = []string{
	"0.0.0.0/0", "::/0", "0.0.0.0/1", "8.8.8.8/32", "10.99.0.0/16", "127.0.0.1/32", "224.0.0.5/32", "255.255.255.255/32", "169.254.1.1/32",
	"203.0.112.0/23", "203.0.113.0/24", "::ffff:203.0.113.11/128", "fe80::1/128", "ff02::1/128", "2001:db8::/32", "2000::/3", "::1/128",
}

// sinceWhen returns the session of a route, and since when BIRD has it. It makes the time of a monotonic clock
// anew for each answer, and where the wall clock is slewed meanwhile, it is another one by a millisecond.
var sinceWhen = regexp.MustCompile(`\[(\S+) \d\d:\d\d:\d\d\.\d{3}\]`)

func TestAnAttackOnWhatIsAnnouncedChangesNothingInTheRouters(t *testing.T) {
	one, two := onOneSubnet(t)
	config := planned(t, site(t, one, two))
	speaker := newSpeaker(t)
	must(t, speaker.Set(t.Context(), config))
	holds := func() string {
		return fmt.Sprint(one.routes(), two.routes(), one.ask("show bgp ipv4 unicast"), one.ask("show bgp ipv6 unicast"), sinceWhen.ReplaceAllString(two.ask("show route"), "[$1]"))
	}
	two.holds(15*time.Second, viaMachine(one.Local4, one.Local6,
		"203.0.113.10", "203.0.113.74", "203.0.113.128/28", "203.0.113.202", "2001:db8:113::10", "2001:db8:113:1::10", "2001:db8:113:2::10/124", "2001:db8:113:3::10"))
	eventually(t, 5*time.Second, "FRR holds six routes", func() (bool, string) { r := one.routes(); return len(r) == 6, fmt.Sprint(r) })
	before, updates := holds(), sent(t, speaker)

	attacks := slices.Clone(forbidden)
	for _, own := range []netip.Addr{one.Addr4, one.Addr6, two.Addr4, two.Addr6, one.Local4, one.Local6} {
		config.Within = append(config.Within, netip.PrefixFrom(own, own.BitLen())) // even if a pool had it
		attacks = append(attacks, netip.PrefixFrom(own, own.BitLen()).String())
	}
	attack := func(prefixes ...string) error {
		bad := config
		bad.Sessions = slices.Clone(config.Sessions)
		var ads []advertise.Advertisement
		for _, p := range prefixes {
			ads = append(ads, advertisement(p))
		}
		for i := range bad.Sessions {
			bad.Sessions[i].Advertisements = bad.Sessions[i].Advertisements.Edit(nil, ads)
		}
		return speaker.Set(t.Context(), bad)
	}
	for _, a := range attacks {
		if err := attack(a); !errors.Is(err, ErrRefused) || strings.Count(err.Error(), " "+a+": ") != len(config.Sessions) {
			t.Errorf("%s was not refused to every session: %v", a, err)
		}
	}
	if err := attack(attacks...); !errors.Is(err, ErrRefused) {
		t.Errorf("Set returned %v", err)
	}
	for _, st := range speaker.State(t.Context()) {
		if st.Refused != len(attacks) {
			t.Errorf("%v keeps %d back, of %d", st.Key, st.Refused, len(attacks))
		}
	}
	never(t, time.Second, "an UPDATE went out", func() (bool, string) { return sent(t, speaker) != updates, "" })
	if now := holds(); now != before {
		t.Errorf("the routers held\n%s\nand hold\n%s", before, now)
	}
	if out, err := exec.Command("ss", "-Hltn", "sport = :179").Output(); err != nil || len(out) > 0 {
		t.Errorf("somebody listens on port 179: %v %s", err, out)
	}
}
