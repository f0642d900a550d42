package routerconfig

import (
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// newFilter returns the filter of a session: the prefixes that machines of the rack may announce over it.
func newFilter(inv *inventory.Inventory, rack inventory.Rack, terms inventory.Session) *filter {
	made := &filter{}
	for _, p := range inv.Pools {
		for _, a := range p.Advertise {
			if announced(a, rack, terms.Router) {
				made.addPool(p, a)
			}
		}
	}
	pods4, pods6 := 0, 0
	if terms.PodCIDRs {
		made.addPodNetwork(inv, rack)
		for _, m := range rack.Machines {
			pods4 = max(pods4, count(m.PodCIDRs, true))
			pods6 = max(pods6, count(m.PodCIDRs, false))
		}
	}
	made.sort()
	made.limits(pods4, pods6)
	return made
}

// announced reports whether machines of the rack may announce VIPs to the router by an
// advertisement of a pool. Which Services it selects changes with their labels: a router
// lets in whatever any of them may have.
func announced(a inventory.Advertise, rack inventory.Rack, router string) bool {
	in := func(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
	return in(a.Racks, rack.Name) && in(a.Zones, rack.Zone) && in(a.Routers, router)
}

// addPodNetwork lets in blocks of a machine's size. They lie in the rack's block
// where a person fixed it. A carved one is no firm ground: a cluster keeps what
// it once gave, so what is carved here and now may differ from what is in force.
func (f *filter) addPodNetwork(inv *inventory.Inventory, rack inventory.Rack) {
	for _, cidr := range inv.PodNetwork.CIDRs {
		blocks := []netip.Prefix{cidr}
		if !rack.Carved {
			if fixed := family(rack.PodCIDRs, cidr.Addr().Is4()); len(fixed) > 0 {
				blocks = fixed
			}
		}
		for _, b := range blocks {
			f.addPods(b, inv.PodNetwork.NodePrefix.For(b.Addr()))
		}
	}
	for _, m := range rack.Machines {
		for _, p := range m.PodCIDRs {
			if !m.Carved && !f.letsIn(p) {
				f.addPods(p, p.Bits())
			}
		}
	}
}

// letsIn reports whether the pod CIDR is let in already.
func (f *filter) letsIn(p netip.Prefix) bool {
	rules := f.pod6
	if p.Addr().Is4() {
		rules = f.pod4
	}
	return slices.ContainsFunc(rules, func(r rule) bool { return r.length == p.Bits() && r.block.Contains(p.Addr()) })
}

func family(ps []netip.Prefix, v4 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return p.Addr().Is4() != v4 })
}

func count(ps []netip.Prefix, v4 bool) int { return len(family(ps, v4)) }
