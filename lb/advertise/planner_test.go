package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// drawOffer has few VIPs, Services and aggregates, so that offers meet.
func drawOffer(t *rapid.T) Offer {
	near := rapid.SampledFrom([]string{"203.0.113.10", "198.51.100.3", "198.51.100.130", "192.0.2.1", "192.0.2.193", "192.0.2.225", "10.10.1.1", "10.244.1.0", "2001:db8:113::10", "203.0.113.130", "203.0.113.130"}).Draw(t, "near")
	vip := netip.MustParseAddr(near)
	for range rapid.IntRange(0, 3).Draw(t, "host") {
		vip = vip.Next()
	}
	return Offer{
		Service: lb.ServiceKey{Namespace: "prod", Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "service")}, VIP: vip, LocalTraffic: rapid.Bool().Draw(t, "local traffic"),
		Endpoints: Endpoints{Local: rapid.IntRange(0, 2).Draw(t, "local"), Any: rapid.IntRange(0, 2).Draw(t, "any"), Terminating: rapid.Bool().Draw(t, "terminating")},
		Labels:    rapid.SampledFrom([]Labels{"", "", "tier=gold", "tier=silver", "site=zb", "site=zb,tier=gold"}).Draw(t, "labels"),
	}
}

// turn changes something besides the offers.
func turn(t *rapid.T, v *View, inv *inventory.Inventory) {
	switch rapid.IntRange(0, 6).Draw(t, "turn") {
	case 0:
		v.Excluded = !v.Excluded
	case 1:
		v.ProxyHealthy = !v.ProxyHealthy
	case 2:
		v.Draining = !v.Draining
	case 3:
		v.Withdrawn = !v.Withdrawn
	case 4:
		v.PodCIDRs = rapid.SampledFrom([][]netip.Prefix{nil, cidrs("10.244.1.0/24"), cidrs("10.244.1.0/32", "fd00:244:0:1::/64", "10.0.0.0/8")}).Draw(t, "pod CIDRs")
	case 5:
		v.Machine.State = rapid.SampledFrom([]inventory.State{inventory.StateActive, inventory.StateMaintenance}).Draw(t, "state")
	case 6:
		other := *inv
		other.Pools = slices.Clone(inv.Pools)
		other.Pools[1].Advertise = slices.Clone(other.Pools[1].Advertise)
		other.Pools[1].Advertise[0].Weighted = true
		v.Inventory = rapid.SampledFrom([]*inventory.Inventory{inv, &other}).Draw(t, "inventory")
	}
}

// TestAPlannerPlansLikePlanOf is the law that lets it decide only on what changed.
func TestAPlannerPlansLikePlanOf(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		v := view(t, inv, rapid.SampledFrom(machines).Draw(rt, "machine"))
		var p Planner
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				turn(rt, &v, inv)
			} else {
				some := rapid.SliceOfN(rapid.Custom(drawOffer), 0, 4)
				v.Offers = v.Offers.Edit(some.Draw(rt, "gone"), some.Draw(rt, "put"))
			}
			fresh := v
			fresh.Offers = sorted.Of(slices.Collect(v.Offers.All())...)
			if d := cmp.Diff(text(PlanOf(fresh)), text(p.Plan(v))); d != "" {
				rt.Fatalf("-want +got:\n%s", d)
			}
		}
	})
}

func TestAPlanThatWasGivenOutStaysAsItWas(t *testing.T) {
	var p Planner
	v := view(t, load(t, datacenter), "w1")
	v.Offers = sorted.Of(slices.Concat(offer("a", 0, 1, "203.0.113.10"), offer("b", 0, 0, "203.0.113.11"))...)
	kept := p.Plan(v)
	before := text(kept)
	v.Offers = sorted.Of(slices.Concat(offer("a", 0, 0, "203.0.113.10"), offer("c", 0, 1, "203.0.113.12"))...)
	p.Plan(v)
	if d := cmp.Diff(before, text(kept)); d != "" {
		t.Error(d)
	}
}

// BenchmarkPlan is what a plan costs when one of many Services changes, and what it
// costs from nothing.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000} {
		v := view(b, load(b, datacenter), "w1")
		one, other := offer("web", 0, 1, "203.0.113.10"), offer("web", 0, 0, "203.0.113.10")
		var all []Offer
		vip := netip.MustParseAddr("2001:db8:113::1")
		for range n {
			all = append(all, Offer{Service: lb.ServiceKey{Namespace: "prod", Name: "web"}, VIP: vip, Endpoints: Endpoints{Any: 1}})
			vip = vip.Next()
		}
		v.Offers = sorted.Of(append(all, one...)...)
		b.Run(fmt.Sprintf("one of %d", n+1), func(b *testing.B) {
			var p Planner
			p.Plan(v)
			for b.Loop() {
				one, other = other, one
				v.Offers = v.Offers.Edit(nil, one)
				p.Plan(v)
			}
		})
		b.Run(fmt.Sprintf("all of %d", n+1), func(b *testing.B) {
			for b.Loop() {
				PlanOf(v)
			}
		})
	}
}
