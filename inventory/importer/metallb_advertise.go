package importer

import (
	"fmt"
	"slices"

	"go.universe.tf/metallb/api/v1beta1"

	"plinth.dev/plinth/inventory"
)

// advertisement is a BGPAdvertisement.
type advertisement struct {
	object *object
	spec   v1beta1.BGPAdvertisementSpec
}

// l2Advertisement is an L2Advertisement.
type l2Advertisement struct {
	object *object
	spec   v1beta1.L2AdvertisementSpec
}

func (r *metalLBReader) readAdvertisements() (all []advertisement) {
	for _, o := range r.of(metalLB, "BGPAdvertisement") {
		a, ok := decode[v1beta1.BGPAdvertisement](r.draft, o)
		if !ok {
			continue
		}
		o.mark(meaningless, "metadata.name") // nothing refers to it
		o.mark(carried, "spec.aggregationLength", "spec.aggregationLengthV6", "spec.localPref", "spec.asPathPrepend", "spec.communities", "spec.ipAddressPools",
			"spec.ipAddressPoolSelectors", "spec.nodeSelectors", "spec.peers", "spec.serviceSelectors")
		all = append(all, advertisement{o, a.Spec})
	}
	return all
}

func (r *metalLBReader) readL2Advertisements() (all []l2Advertisement) {
	for _, o := range r.of(metalLB, "L2Advertisement") {
		a, ok := decode[v1beta1.L2Advertisement](r.draft, o)
		if !ok {
			continue
		}
		o.mark(meaningless, "metadata.name")
		o.mark(carried, "spec.ipAddressPools", "spec.ipAddressPoolSelectors", "spec.nodeSelectors", "spec.serviceSelectors")
		r.drop(o, "spec.interfaces", "a machine answers on the interface that has the rack's subnet")
		r.drop(o, "spec.preferredNodeSelectors", "the controller spreads VIPs over the machines; one VIP is kept on a machine by the annotation plinth.dev/home of its Service")
		all = append(all, l2Advertisement{o, a.Spec})
	}
	return all
}

// selectorsOf are all selectors of Nodes.
func selectorsOf(peers []metalLBPeer, bgp []advertisement, l2 []l2Advertisement) (all []inventory.Selector) {
	for _, p := range peers {
		all = append(all, selectors(p.spec.NodeSelectors)...)
	}
	for _, a := range bgp {
		all = append(all, selectors(a.spec.NodeSelectors)...)
	}
	for _, a := range l2 {
		all = append(all, selectors(a.spec.NodeSelectors)...)
	}
	return all
}

// advertise gives a pool what BGPAdvertisements say of it.
func (r *metalLBReader) advertise(p *metalLBPool, all []advertisement) {
	for _, a := range all {
		if !p.chooses(a.spec.IPAddressPools, a.spec.IPAddressPoolSelectors) {
			continue
		}
		p.chosen++
		r.comment("spec.pools["+p.pool.Name+"]", a.object)
		one := newAdvertise()
		one.Aggregate = inventory.PrefixLengths{IPv4: int(orElse(a.spec.AggregationLength, 32)), IPv6: int(orElse(a.spec.AggregationLengthV6, 128))}
		one.LocalPref, one.Prepend = localPref(a.spec.LocalPref), a.spec.AsPathPrepend
		one.Communities = r.communities(a)
		one.Racks = r.places.of(a.object, "spec.nodeSelectors", selectors(a.spec.NodeSelectors))
		one.Routers = r.told(a)
		if len(a.spec.Peers) > 0 && len(one.Routers) == 0 {
			continue // to none that is in the inventory
		}
		each := selectors(a.spec.ServiceSelectors)
		if len(each) == 0 {
			each = []inventory.Selector{{}}
		}
		for _, s := range each {
			one.Selector = s
			r.addAdvertisement(p, a.object, one)
		}
	}
}

// localPref is what routers of our AS are told. MetalLB sends 0 where nothing is said, FRR 100 then.
func localPref(given uint32) uint32 {
	if given == 0 {
		return 100
	}
	return given
}

// communities are those of an advertisement, by value.
func (r *metalLBReader) communities(a advertisement) inventory.Communities {
	var all []inventory.Community
	for i, text := range a.spec.Communities {
		if c, ok := r.aliases[text]; ok {
			all = append(all, c)
			continue
		}
		c, err := inventory.ParseCommunity(text)
		if err != nil {
			path := fmt.Sprintf("spec.communities[%d]", i)
			a.object.mark(noted, path)
			r.note(a.object, path, NotValid, fmt.Sprintf("there is no Community that is named %q, and it is none itself: it is left out", text))
			continue
		}
		all = append(all, c)
	}
	return inventory.CommunitiesOf(all...)
}

// told are the routers of an advertisement.
func (r *metalLBReader) told(a advertisement) (names []string) {
	for i, peer := range a.spec.Peers {
		if name, ok := r.routers[peer]; ok {
			names = append(names, name)
			continue
		}
		path := fmt.Sprintf("spec.peers[%d]", i)
		a.object.mark(noted, path)
		r.note(a.object, path, NotValid, fmt.Sprintf("there is no router for BGPPeer %q", peer))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// addAdvertisement adds one. MetalLB joins what several say of one prefix to one peer; in an inventory the first counts. So those that
// differ by communities alone are joined here, and of others that is told.
func (r *metalLBReader) addAdvertisement(p *metalLBPool, o *object, one inventory.Advertise) {
	for i := range p.pool.Advertise {
		have := &p.pool.Advertise[i]
		if have.Aggregate != one.Aggregate || have.Selector.String() != one.Selector.String() {
			continue
		}
		if have.LocalPref == one.LocalPref && have.Prepend == one.Prepend && slices.Equal(have.Racks, one.Racks) && slices.Equal(have.Routers, one.Routers) {
			have.Communities = inventory.CommunitiesOf(append(slices.Collect(have.Communities.All()), slices.Collect(one.Communities.All())...)...)
			return
		}
		if meet(have.Racks, one.Racks) && meet(have.Routers, one.Routers) {
			r.note(o, "spec", Differs, fmt.Sprintf("of pool %s another advertisement says other things to the same routers: in the inventory the first one counts", p.pool.Name))
		}
	}
	p.pool.Advertise = append(p.pool.Advertise, one)
}

// meet reports whether two lists of which an empty one means all have something in common.
func meet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// answer gives a pool what L2Advertisements say of it: its addresses are announced on their subnet.
func (r *metalLBReader) answer(p *metalLBPool, all []l2Advertisement) {
	for _, a := range all {
		if !p.chooses(a.spec.IPAddressPools, a.spec.IPAddressPoolSelectors) {
			continue
		}
		p.chosen++
		r.comment("spec.pools["+p.pool.Name+"]", a.object)
		if len(p.pool.Advertise) > 0 && p.pool.Via != inventory.ViaLink {
			a.object.mark(noted, "spec")
			r.note(a.object, "spec", Differs, fmt.Sprintf("pool %s is announced over BGP, too: Plinth announces an address one way, and takes BGP", p.pool.Name))
			continue
		}
		p.pool.Via = inventory.ViaLink
		racks := r.places.of(a.object, "spec.nodeSelectors", selectors(a.spec.NodeSelectors))
		each := selectors(a.spec.ServiceSelectors)
		if len(each) == 0 {
			each = []inventory.Selector{{}}
		}
		for _, s := range each {
			one := newAdvertise()
			one.Selector, one.Racks = s, racks
			if !slices.ContainsFunc(p.pool.Advertise, func(have inventory.Advertise) bool {
				return have.Selector.String() == s.String() && slices.Equal(have.Racks, racks)
			}) {
				p.pool.Advertise = append(p.pool.Advertise, one)
			}
		}
	}
	if p.pool.Via == inventory.ViaLink {
		r.places.subnetsFor(p.object, "spec.addresses", &p.pool)
	}
}
