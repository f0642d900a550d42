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

// drawAdvertisements gives a pool up to four advertisements of every kind.
func drawAdvertisements(t *rapid.T) []inventory.Advertise {
	some := func(what string, names ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 1, rapid.ID[string]).Draw(t, what)
	}
	one := rapid.Custom(func(t *rapid.T) inventory.Advertise {
		a := inventory.Advertise{
			Racks: some("racks", "r1", "r2"), Zones: some("zones", "za", "zb"), Routers: some("routers", "tor1", "tor2"),
			Aggregate: inventory.PrefixLengths{IPv4: rapid.SampledFrom([]int{32, 32, 28, 26}).Draw(t, "aggregate"), IPv6: 128},
			LocalPref: rapid.SampledFrom([]uint32{100, 200}).Draw(t, "localPref"),
			Prepend:   rapid.SampledFrom([]uint8{0, 2}).Draw(t, "prepend"),
			Weighted:  rapid.Bool().Draw(t, "weighted"),
		}
		if tier := rapid.SampledFrom([]string{"", "", "gold", "silver"}).Draw(t, "tier"); tier != "" {
			a.Selector.MatchLabels = map[string]string{"tier": tier}
		}
		return a
	})
	return rapid.SliceOfN(one, 1, 4).Draw(t, "advertisements")
}

// oracle plans one pool's offers by the definition alone, one session after the other: of all
// advertisements that announce a prefix there, the one counts that is no worse way, and then
// stands first.
func oracle(v View, pool inventory.Pool, offers []Offer) (lines []string, refused map[lb.ServiceKey]lb.Reason) {
	type wish struct {
		worse, order int
		ad           Advertisement
	}
	rack, _ := v.Inventory.Rack(v.Machine.Rack)
	fits := func(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
	for _, s := range v.Inventory.Sessions(v.Machine) {
		said := map[netip.Prefix]wish{}
		for _, o := range offers {
			for order, a := range pool.Advertise {
				tier, has := a.Selector.MatchLabels["tier"]
				if refusalOf(&o) != "" || !s.Families.IPv4 || has && string(o.Labels) != "tier="+tier || !fits(a.Racks, rack.Name) || !fits(a.Zones, rack.Zone) || !fits(a.Routers, s.Router) {
					continue
				}
				prefixes := []netip.Prefix{netip.PrefixFrom(o.VIP, a.Aggregate.IPv4).Masked()}
				if o.LocalTraffic {
					prefixes = append(prefixes, netip.PrefixFrom(o.VIP, 32))
				}
				w := wish{order: order, ad: attributes(s, a, o.LocalTraffic && o.Endpoints.Terminating)}
				if o.LocalTraffic && o.Endpoints.Terminating {
					w.worse = 1
				}
				if a.Weighted && o.LocalTraffic {
					w.ad.Bandwidth = uint32(o.Endpoints.Local) * perEndpoint
				}
				for _, p := range prefixes {
					w.ad.Prefix = p
					have, there := said[p]
					if !there || w.worse < have.worse || w.worse == have.worse && (w.order < have.order || w.order == have.order && w.ad.Bandwidth > have.ad.Bandwidth) {
						said[p] = w
					}
				}
			}
		}
		for _, w := range said {
			lines = append(lines, fmt.Sprint(s.Router, w.ad))
		}
	}
	slices.Sort(lines)
	return lines, oracleRefusals(v, rack, pool, offers)
}

// oracleRefusals says why an offer is announced to nobody from here.
func oracleRefusals(v View, rack inventory.Rack, pool inventory.Pool, offers []Offer) map[lb.ServiceKey]lb.Reason {
	all := map[lb.ServiceKey]lb.Reason{}
	for _, o := range offers {
		if no := refusalOf(&o); no != "" {
			all[o.Service] = no
			continue
		}
		of := slices.DeleteFunc(slices.Clone(pool.Advertise), func(a inventory.Advertise) bool {
			tier, has := a.Selector.MatchLabels["tier"]
			return has && string(o.Labels) != "tier="+tier
		})
		for _, step := range []struct {
			reason lb.Reason
			keeps  func(inventory.Advertise) bool
		}{
			{lb.PoolLimitedToServices, func(inventory.Advertise) bool { return true }},
			{lb.PoolLimitedToRacks, func(a inventory.Advertise) bool { return len(a.Racks) == 0 || slices.Contains(a.Racks, rack.Name) }},
			{lb.PoolLimitedToZones, func(a inventory.Advertise) bool { return len(a.Zones) == 0 || slices.Contains(a.Zones, rack.Zone) }},
		} {
			of = slices.DeleteFunc(of, func(a inventory.Advertise) bool { return !step.keeps(a) })
			if len(of) == 0 && all[o.Service] == "" {
				all[o.Service] = step.reason
			}
		}
	}
	return all
}

// TestASessionAnnouncesEachPrefixOnceAsTheFirstAdvertisementOfItsPoolThatHasIt holds the plan of
// a pool with several advertisements against their definition.
func TestASessionAnnouncesEachPrefixOnceAsTheFirstAdvertisementOfItsPoolThatHasIt(t *testing.T) {
	inv := load(t, datacenter)
	rapid.Check(t, func(rt *rapid.T) {
		pool := inventory.Pool{Name: "several", Ranges: []inventory.Range{inventory.RangeOf(netip.MustParsePrefix("203.0.113.128/25"))}, State: inventory.PoolActive}
		pool.Advertise = drawAdvertisements(rt)
		own := *inv
		own.Pools = []inventory.Pool{pool}
		v := view(t, &own, rapid.SampledFrom(machines).Draw(rt, "machine"))
		var offers []Offer
		for i := range rapid.IntRange(0, 5).Draw(rt, "offers") {
			local := rapid.IntRange(0, 2).Draw(rt, "local endpoints")
			o := Offer{
				Service: lb.ServiceKey{Namespace: "prod", Name: fmt.Sprint(i)}, LocalTraffic: rapid.Bool().Draw(rt, "local traffic"),
				VIP:       netip.MustParseAddr(rapid.SampledFrom([]string{"203.0.113.129", "203.0.113.130", "203.0.113.200"}).Draw(rt, "vip")),
				Endpoints: Endpoints{Local: local, Any: local + 1, Terminating: local > 0 && rapid.Bool().Draw(rt, "terminating")},
				Labels:    rapid.SampledFrom([]Labels{"", "tier=gold", "tier=silver"}).Draw(rt, "labels"),
			}
			offers = append(offers, o)
		}
		v.Offers = sorted.Of(offers...)
		plan := PlanOf(v)

		want, refused := oracle(v, pool, offers)
		var got []string
		for _, s := range plan.Sessions {
			for a := range s.Advertisements.All() {
				got = append(got, fmt.Sprint(s.Session.Router, a))
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("-want +got:\n%s", d)
		}
		for r := range plan.Refusals.All() {
			if r.Router == "" && refused[r.Service] != r.Reason || r.Router != "" && r.Reason != lb.PoolLimitedToRouters {
				rt.Fatalf("%v of %s, want %v", r, v.Machine.Name, refused[r.Service])
			}
			delete(refused, r.Service)
		}
		if len(refused) > 0 {
			rt.Fatalf("nobody is told of %v", refused)
		}
	})
}

func TestLabelsComeBackAsTheyWere(t *testing.T) {
	labels := map[string]string{"app": "web", "tier": "", "example.com/site": "b", "other": "x"}
	l := LabelsOf(labels, []string{"app", "example.com/site", "none", "tier"})
	if l != "app=web,example.com/site=b,tier=" {
		t.Error(l)
	}
	if d := cmp.Diff(map[string]string{"app": "web", "tier": "", "example.com/site": "b"}, l.Map()); d != "" {
		t.Error(d)
	}
	if len(Labels("").Map()) != 0 {
		t.Error("labels of nothing")
	}
}
