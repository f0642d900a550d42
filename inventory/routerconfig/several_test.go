package routerconfig

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// drawSeveral is two racks with two routers, and a pool with several advertisements.
func drawSeveral(t *rapid.T) *inventory.Inventory {
	var all []string
	for range rapid.IntRange(1, 4).Draw(t, "advertisements") {
		said := []string{fmt.Sprintf("aggregate: {ipv4: %d}", rapid.SampledFrom([]int{32, 28, 26}).Draw(t, "aggregate"))}
		for _, values := range [][]string{
			{"racks: [r1]", "racks: [r2]"}, {"routers: [tor1]", "routers: [tor2]"}, {"serviceSelector: {matchLabels: {tier: gold}}"},
		} {
			if v := rapid.SampledFrom(append(values, "")).Draw(t, "limited to"); v != "" {
				said = append(said, v)
			}
		}
		all = append(all, "{"+strings.Join(said, ", ")+"}")
	}
	inv, problems := document.Load(document.Document{Source: "drawn", Data: fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  routers: [{name: tor1, address: 10.1.0.1, asn: 65101}, {name: tor2, address: 10.1.0.2, asn: 65102}]
  pools: [{name: public, addresses: [203.0.113.0/25], advertise: [%s]}]
  racks: [{name: r1, machines: [{name: w1, addresses: [10.1.0.11]}]}, {name: r2, machines: [{name: w2, addresses: [10.1.0.12]}]}]
`, strings.Join(all, ", "))})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// TestRoutersLetInWhateverAdvertisementsOfThemAnnounceAndNoOtherLength: of any Services, whatever
// labels they have by then.
func TestRoutersLetInWhateverAdvertisementsOfThemAnnounceAndNoOtherLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv := drawSeveral(t)
		for _, router := range inv.Routers {
			for _, g := range newSide(inv, router).groups {
				m, _ := inv.Machine(g.members[0].machine)
				announced := map[int]bool{}
				for _, p := range ofAllLabels(inv, m, router.Name) {
					if announced[p.Bits()] = true; !g.filter.admits(p) {
						t.Fatalf("%s announces %v to %s, which does not let it in", m.Name, p, router.Name)
					}
				}
				for _, r := range g.filter.vip4 {
					if !announced[r.length] {
						t.Fatalf("%s lets in prefixes of %d bits from %s, which announces none", router.Name, r.length, m.Name)
					}
				}
			}
		}
	})
}

// ofAllLabels is what a machine says to a router of VIPs of Services with each label, with local
// traffic and without.
func ofAllLabels(inv *inventory.Inventory, m inventory.Machine, router string) (out []netip.Prefix) {
	view := advertise.View{Inventory: inv, Machine: m, ProxyHealthy: true}
	var offers []advertise.Offer
	for i, labels := range []advertise.Labels{"", "tier=gold"} {
		for _, local := range []bool{false, true} {
			offers = append(offers, advertise.Offer{
				Service: lb.ServiceKey{Namespace: fmt.Sprint(local), Name: fmt.Sprint(i)}, VIP: netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", 20*i+1)),
				LocalTraffic: local, Endpoints: advertise.Endpoints{Local: 1, Any: 1}, Labels: labels,
			})
		}
	}
	view.Offers = sorted.Of(offers...)
	plan := advertise.PlanOf(view)
	i := slices.IndexFunc(plan.Sessions, func(s advertise.SessionPlan) bool { return s.Session.Router == router })
	for ad := range plan.Sessions[i].Advertisements.All() {
		out = append(out, ad.Prefix)
	}
	return out
}
