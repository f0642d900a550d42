package document

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// advertiseChecks are the checks of where and how pools are announced.
type advertiseChecks struct{ *validation }

// poolReach warns of pools whose VIPs no session can carry.
func (v advertiseChecks) poolReach() {
	carried := v.carried()
	for raw := range v.raw.Pools.each() {
		p, _ := v.inv.Pool(raw.Name.v)
		if p.OnLinksOnly() {
			continue
		}
		if all, anywhere := v.reachOf(p, raw, carried); anywhere {
			v.unreached(p, raw, all)
		}
	}
}

// reachOf are the families that some session carries of a pool's advertisements; false: none carries any. It warns of each
// advertisement that no session is left for.
func (v advertiseChecks) reachOf(p inventory.Pool, raw *rawPool, carried reach) (all inventory.Families, anywhere bool) {
	for i, a := range p.Advertise {
		f, somewhere := carried.of(v.inv, a)
		if at := raw.advertise(i).node; !somewhere && at != nil && len(carried) > 0 {
			v.refuse(at, refusal{code: inventory.NowhereToGo, severity: inventory.Warning, message: "leaves no session to announce the pool over", accepted: "racks, zones and routers that have sessions with each other"})
		}
		all, anywhere = all.With(f), anywhere || somewhere
	}
	return all, anywhere
}

// unreached warns of the pool's addresses of a family that no session carries.
func (v advertiseChecks) unreached(p inventory.Pool, raw *rawPool, carried inventory.Families) {
	for _, r := range raw.Addresses.v {
		f := inventory.Families{IPv4: r.v.Is4(), IPv6: !r.v.Is4()}
		if (f.IPv4 && !carried.IPv4 || f.IPv6 && !carried.IPv6) && (len(p.Links) == 0 || len(p.OverBGP(r.v)) > 0) {
			v.refuse(r.node, refusal{code: inventory.FamilyUncarried, severity: inventory.Warning, message: "no session can carry this family, for machines or routers have no address of it",
				accepted: "machines with an address of that family"})
		}
	}
}

// advertise is one of the pool's advertisements as it was written; empty where it was not.
func (p *rawPool) advertise(i int) *rawAdvertise {
	if i < len(p.Advertise.v) {
		return &p.Advertise.v[i]
	}
	return &rawAdvertise{}
}

// reach holds the address families that the sessions between each rack and router carry.
type reach map[[2]string]inventory.Families

// complete reports whether no further machine of the rack can add to what is known.
func (c reach) complete(rack inventory.Rack) bool {
	for _, p := range rack.Peers {
		if c[[2]string{rack.Name, p}] != (inventory.Families{IPv4: true, IPv6: true}) {
			return false
		}
	}
	return true
}

// of returns the families in which sessions carry a pool with that advertisement, and whether it has any session.
func (c reach) of(inv *inventory.Inventory, a inventory.Advertise) (all inventory.Families, somewhere bool) {
	for key, f := range c {
		rack, _ := inv.Rack(key[0])
		if allowed(a.Racks, rack.Name) && allowed(a.Zones, rack.Zone) && allowed(a.Routers, key[1]) {
			all, somewhere = all.With(f), true
		}
	}
	return all, somewhere
}

func allowed(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

// aggregates warns of an aggregate that draws in traffic for addresses that the
// pool does not have.
func (v advertiseChecks) aggregates() {
	for raw := range v.raw.Pools.each() {
		p, _ := v.inv.Pool(raw.Name.v)
		if p.OnLinksOnly() {
			continue
		}
		for i, a := range p.Advertise {
			v.aggregate(p, a, &raw.advertise(i).Aggregate)
		}
	}
}

func (v advertiseChecks) aggregate(p inventory.Pool, a inventory.Advertise, written *rawLengths) {
	have := inventory.SetOf(p.Ranges, nil)
	for _, ipRange := range p.Ranges {
		length := cmp.Or(a.Aggregate.For(ipRange.First), ipRange.First.BitLen())
		around, err := ipRange.First.Prefix(length)
		at := lengthNode(written, ipRange.First)
		if err == nil && at != nil && !have.ContainsPrefix(around) {
			v.refuse(at, refusal{code: inventory.WideAggregate, severity: inventory.Warning, message: fmt.Sprintf("announces %s, and the pool has only %s of it", around, ipRange),
				accepted: "a length that keeps within the pool", suggestion: narrowest(ipRange)})
		}
	}
}

// shadowed warns of advertisements that others of their pool leave nothing to.
func (v advertiseChecks) shadowed() {
	for raw := range v.raw.Pools.each() {
		p, _ := v.inv.Pool(raw.Name.v)
		for i, a := range p.Advertise {
			first := slices.IndexFunc(p.Advertise[:i], func(b inventory.Advertise) bool { return shadows(b, a, poolFamilies(p)) })
			if at := raw.advertise(i).node; first >= 0 && at != nil {
				v.refuse(at, refusal{code: inventory.AdvertiseShadowed, severity: inventory.Warning,
					message:  fmt.Sprintf("has no effect: advertise[%d] comes first, and announces the same prefixes to the same routers", first),
					accepted: fmt.Sprintf("the narrower one first, before advertise[%d], or another aggregate", first)}, raw.advertise(first).node)
			}
		}
	}
}

// shadows reports whether the first of two announces all that the second does, and as the same prefixes.
func shadows(first, second inventory.Advertise, of inventory.Families) bool {
	covers := func(all, some []string) bool {
		return len(all) == 0 || len(some) > 0 && !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
	}
	return covers(first.Racks, second.Racks) && covers(first.Zones, second.Zones) && covers(first.Routers, second.Routers) &&
		(first.Selector.Empty() || first.Selector.String() == second.Selector.String()) &&
		(!of.IPv4 || first.Aggregate.IPv4 == second.Aggregate.IPv4) && (!of.IPv6 || first.Aggregate.IPv6 == second.Aggregate.IPv6)
}

// poolFamilies returns the families that a pool has addresses of.
func poolFamilies(p inventory.Pool) (f inventory.Families) {
	for _, r := range p.Ranges {
		f = f.With(inventory.Families{IPv4: r.Is4(), IPv6: !r.Is4()})
	}
	return f
}

// lengthNode returns the node where the length for the family of a was written.
func lengthNode(l *rawLengths, a netip.Addr) *yaml.Node {
	if a.Is4() {
		return l.IPv4.node
	}
	return l.IPv6.node
}

// narrowest is the length of the largest prefix that the range is made of.
func narrowest(r inventory.Range) string {
	if p, ok := r.AsPrefix(); ok {
		return fmt.Sprint(p.Bits())
	}
	return fmt.Sprint(r.First.BitLen())
}
