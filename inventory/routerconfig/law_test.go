package routerconfig

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// What the machines' side decides to announce is what the router's side lets in.
func TestRoutersLetInAllThatMachinesAnnounce(t *testing.T) {
	announced := 0
	for name, inv := range subjects(t) {
		for _, router := range inv.Routers {
			s := newSide(inv, router)
			for _, g := range s.groups {
				for _, m := range g.members {
					machine, _ := inv.Machine(m.machine)
					for _, p := range everything(inv, machine, router.Name) {
						announced++
						if !g.filter.admits(p) {
							t.Errorf("%s: %s announces %s to %s, which does not let it in", name, m.machine, p, router.Name)
						}
					}
				}
			}
		}
	}
	if announced == 0 {
		t.Error("nothing was announced, so this test says nothing")
	}
}

func TestRoutersLetInNothingElse(t *testing.T) {
	for name, inv := range subjects(t) {
		for _, router := range inv.Routers {
			for _, f := range newSide(inv, router).filters {
				for _, text := range []string{
					"0.0.0.0/0", "::/0", "10.10.1.1/32", "10.10.1.0/26", "2001:db8:10:1::1/128", "192.168.1.1/32",
					"203.0.113.0/25", "203.0.113.0/24", "10.244.0.0/16", "10.244.0.0/20", "10.244.0.1/32", "fd00:244::/48",
				} {
					if f.admits(netip.MustParsePrefix(text)) {
						t.Errorf("%s: %s lets in %s", name, router.Name, text)
					}
				}
			}
		}
	}
}

// everything is what a machine says to a router when it serves the first and the
// last address of every range of every pool, each with local traffic and without.
func everything(inv *inventory.Inventory, m inventory.Machine, router string) []netip.Prefix {
	view := advertise.View{Inventory: inv, Machine: m, PodCIDRs: m.PodCIDRs, ProxyHealthy: true}
	view.Machine.State = inventory.StateActive
	var offers []advertise.Offer
	for i, pool := range inv.Pools {
		for j, r := range pool.Ranges {
			o := advertise.Offer{
				Service:   lb.ServiceKey{Name: fmt.Sprintf("s%d-%d", i, j)},
				Endpoints: advertise.Endpoints{Local: 1, Any: 1},
			}
			for _, o.VIP = range []netip.Addr{r.First, r.Last} {
				for _, o.LocalTraffic = range []bool{false, true} {
					o.Service.Namespace = fmt.Sprint(o.LocalTraffic)
					offers = append(offers, o)
				}
			}
		}
	}
	view.Offers = sorted.Of(offers...)
	var out []netip.Prefix
	for _, s := range advertise.PlanOf(view).Sessions {
		for ad := range s.Advertisements.All() {
			if s.Session.Router == router {
				out = append(out, ad.Prefix)
			}
		}
	}
	return out
}

func (f *filter) admits(p netip.Prefix) bool {
	return slices.ContainsFunc(f.lists(), func(l prefixList) bool {
		return slices.ContainsFunc(l.rules, func(r rule) bool { return p.Bits() == r.length && r.block.Contains(p.Addr()) })
	})
}
