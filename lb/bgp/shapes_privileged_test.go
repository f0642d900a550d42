//go:build privileged

package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// shapes has values of every key that a router can have in an inventory; the empty value
// leaves the key out. Every value of a crossed key is combined with every value of the
// other crossed ones; the values of the rest take turns.
var shapes = map[string]struct {
	crossed bool
	values  []string
}{
	"address":         {true, []string{"V4", "V6", "LINK", ""}},
	"addresses":       {false, []string{""}}, // where there is no address
	"ttlSecurity":     {true, []string{"", "true"}},
	"multihop":        {true, []string{"", "2", "255"}},
	"bfd":             {true, []string{"", "quickest", "slowest"}},
	"passwordFrom":    {true, []string{"", "{secret: bgp, key: tor}", "{secret: bgp, key: missing}"}},
	"gracefulRestart": {true, []string{"", `"off"`}},
	"asn":             {false, []string{fmt.Sprint(routerASN), fmt.Sprint(routerASN), fmt.Sprint(ourASN), fmt.Sprint(routerASN), "4200000001"}},
	"port":            {false, []string{"", "179", "1790"}},
	"os":              {false, []string{"", "frr"}},
	"holdTime":        {false, []string{"", "65535s", "3s"}},
	"advertise":       {false, []string{"", "{podCIDRs: true}", "{podCIDRs: false}"}},
	"learn":           {false, []string{"", "none", "default"}},
	"name":            {false, []string{"NAME"}},
}

// layouts holds machines and pools from which the families and the source of a session follow.
var layouts = map[string]struct{ addresses, subnets, pools string }{
	"a machine of both families":              {"V4, V6", "", "203.0.113.0/24, '2001:db8:113::/120'"},
	"a machine of both families, IPv4 pools":  {"V4, V6", "", "203.0.113.0/24"},
	"a machine of IPv4":                       {"V4", "", "203.0.113.0/24"},
	"a machine of IPv6":                       {"V6", "", "'2001:db8:113::/120'"},
	"a machine with an address on every link": {second + ", V4, V6", "NET4, NET6", "203.0.113.0/24, '2001:db8:113::/120'"},
}

// second is an address of the machine that is not on the router's link.
const second = "192.0.2.7"

// combine returns all routers that the shapes allow, as mappings without braces.
func combine(keys []string) []string {
	all := []string{""}
	for _, key := range keys {
		s := shapes[key]
		var longer []string
		for n, written := range all {
			values := s.values
			if !s.crossed {
				values = values[n%len(values):][:1]
			}
			for _, value := range values {
				switch {
				case key == "address" && value == "":
					longer = append(longer, written+"addresses: [V4, V6], ")
				case value == "":
					longer = append(longer, written)
				default:
					longer = append(longer, written+key+": "+value+", ")
				}
			}
		}
		all = longer
	}
	return all
}

// routerKeys lists the keys of a router, the crossed ones first.
func routerKeys(t *testing.T) (keys []string) {
	t.Helper()
	for _, typ := range document.Types() {
		for _, field := range typ.Fields {
			if typ.Name != "rawRouter" || field.Hidden {
				continue
			}
			if _, known := shapes[field.Key]; !known {
				t.Errorf("a router can have %q, and no shape has it", field.Key)
			}
			keys = append(keys, field.Key)
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		return map[bool]int{true: -1}[shapes[a].crossed] - map[bool]int{true: -1}[shapes[b].crossed]
	})
	return keys
}

// many makes a router answer at as many addresses as are wanted, and at TCP ports 179
// and 1790.
func (r *router) many(t *testing.T) {
	t.Helper()
	run(t, "ip", "netns", "exec", r.ns, "sysctl", "-q", "-w", "net.ipv4.ip_default_ttl=255", "net.ipv6.conf.all.hop_limit=255", "net.ipv6.conf.eth0.hop_limit=255")
	run(t, "ip", "-n", r.ns, "route", "add", "local", "10.98.0.0/16", "dev", "lo")
	run(t, "ip", "-n", r.ns, "route", "add", "local", "fd98::/64", "dev", "lo")
	run(t, "ip", "route", "add", "10.98.0.0/16", "via", r.Addr4.String())
	run(t, "ip", "route", "add", "fd98::/64", "via", r.Addr6.String())
	run(t, "ip", "addr", "add", second+"/32", "dev", r.link)
	run(t, "ip", "-n", r.ns, "route", "add", second, "dev", "eth0")
	t.Cleanup(func() { run(t, "ip", "route", "del", "10.98.0.0/16"); run(t, "ip", "route", "del", "fd98::/64") })
	r.rogue("an answer")
}

// fill replaces the names of addresses in a router's text.
func (r *router) fill(text string, n int) string {
	return strings.NewReplacer(
		"LINK", fmt.Sprintf("'fe80::%x%%%s'", n+0x1000, r.link), "V4", fmt.Sprintf("10.98.%d.%d", n/250, n%250+1), "V6", fmt.Sprintf("'fd98::%x'", n+1),
		"NAME", fmt.Sprintf("r%d", n),
	).Replace(text)
}

// inventoryOf returns an inventory with these routers; nil: it is refused.
func (r *router) inventoryOf(layout string, routers ...string) *inventory.Inventory {
	tt := layouts[layout]
	text := fmt.Sprintf(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: %d}
  bfdProfiles: [{name: quickest, interval: 10ms, multiplier: 1}, {name: slowest, interval: 60s, multiplier: 255}]
  pools: [{name: all, addresses: [%s]}]
  racks: [{name: r1, subnets: [%s], machines: [{name: m1, addresses: [%s]}]}]
  routers:
`, ourASN, tt.pools, tt.subnets, tt.addresses)
	text = strings.NewReplacer("V4", r.Local4.String(), "V6", "'"+r.Local6.String()+"'", "NET4", "10.98.0.0/15, 192.0.2.0/24", "NET6", "'fd98::/15'").Replace(text)
	for _, router := range routers {
		text += "    - {" + router + "}\n"
	}
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	if problems.Err() != nil {
		return nil
	}
	return inv
}

// TestEverySessionThatAnInventoryAllowsIsSurvived: a panic in one of GoBGP's goroutines
// ends the process, and with it the sessions with all other routers.
func TestEverySessionThatAnInventoryAllowsIsSurvived(t *testing.T) {
	router := newRouter(t)
	router.many(t)
	shapesOfRouters := combine(routerKeys(t))
	for layout := range layouts {
		for _, port := range []int32{0, 179} {
			t.Run(fmt.Sprintf("%s, port %d", layout, port), func(t *testing.T) {
				var routers []string
				for n, shape := range shapesOfRouters {
					if text := router.fill(shape, n); router.inventoryOf(layout, text) != nil {
						routers = append(routers, text)
					}
				}
				if len(routers) < len(shapesOfRouters)/2 {
					t.Fatalf("%d of %d shapes are accepted", len(routers), len(shapesOfRouters))
				}
				router.speak(t, router.inventoryOf(layout, routers...), port)
			})
		}
	}
}

// speak has a Speaker set up the sessions of an inventory's machine, and checks that those
// come up whose terms are the answering router's own.
func (r *router) speak(t *testing.T, inv *inventory.Inventory, port int32) {
	t.Helper()
	m, _ := inv.Machine("m1")
	offers := sorted.Of(advertise.Offer{VIP: netip.MustParseAddr("203.0.113.10"), Endpoints: advertise.Endpoints{Any: 1}}, advertise.Offer{VIP: netip.MustParseAddr("2001:db8:113::10"), Endpoints: advertise.Endpoints{Any: 1}})
	config := configOf()
	want := map[string]bool{}
	for _, plan := range advertise.PlanOf(advertise.View{Inventory: inv, Machine: m, ProxyHealthy: true, Offers: offers}).Sessions {
		sc := SessionConfig{SessionPlan: plan}
		if plan.Session.Password.Key == "tor" {
			sc.Password = "open-sesame"
		}
		config.Sessions = append(config.Sessions, sc)
		if s := plan.Session; s.RouterASN == routerASN && s.Password == (inventory.SecretKey{}) && s.RouterAddr.Zone() == "" {
			want[sc.key().String()] = true
		}
	}
	speaker := NewSpeaker(Options{ListenPort: port})
	begin := time.Now()
	if err := speaker.Set(t.Context(), config); err != nil && !errors.Is(err, ErrPasswordMissing) {
		t.Error(err)
	}
	var sessions int
	eventually(t, 20*time.Second, "the sessions are up that can be", func() (bool, string) {
		var missing []string
		states := speaker.State(t.Context())
		sessions = len(states)
		for _, st := range states {
			if want[st.Key.String()] && !st.Up && st.Losses == 0 {
				missing = append(missing, st.String())
			}
		}
		return len(missing) == 0, fmt.Sprintf("%d of %d: %v", len(missing), len(want), missing)
	})
	t.Logf("%d sessions, %d of them up within %v", sessions, len(want), time.Since(begin))
	must(t, speaker.Leave(context.Background()))
}
