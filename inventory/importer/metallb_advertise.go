package importer

import (
	"fmt"
	"slices"

	"go.universe.tf/metallb/api/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// advertisement is a BGPAdvertisement, or an L2Advertisement, that is of some pools.
type advertisement struct {
	object *object
	pools  []string               // by name
	by     []metav1.LabelSelector // of pools; with pools none: all
	nodes  []metav1.LabelSelector
	peers  []string
	each   []inventory.Selector // of Services; one at least
	one    inventory.Advertise  // without a selector
	texts  []string             // of communities
}

// servicesOf are selectors of Services, or one of all of them.
func servicesOf(all []metav1.LabelSelector) []inventory.Selector {
	if len(all) == 0 {
		return []inventory.Selector{{}}
	}
	return selectors(all)
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
		one := newAdvertise()
		one.Aggregate = inventory.PrefixLengths{IPv4: int(orElse(a.Spec.AggregationLength, 32)), IPv6: int(orElse(a.Spec.AggregationLengthV6, 128))}
		one.LocalPref, one.Prepend = localPref(a.Spec.LocalPref), a.Spec.AsPathPrepend
		all = append(all, advertisement{o, a.Spec.IPAddressPools, a.Spec.IPAddressPoolSelectors, a.Spec.NodeSelectors, a.Spec.Peers, servicesOf(a.Spec.ServiceSelectors), one, a.Spec.Communities})
	}
	return all
}

func (r *metalLBReader) readL2Advertisements() (all []advertisement) {
	for _, o := range r.of(metalLB, "L2Advertisement") {
		a, ok := decode[v1beta1.L2Advertisement](r.draft, o)
		if !ok {
			continue
		}
		o.mark(meaningless, "metadata.name")
		o.mark(carried, "spec.ipAddressPools", "spec.ipAddressPoolSelectors", "spec.nodeSelectors", "spec.serviceSelectors")
		r.drop(o, "spec.interfaces", "a machine answers on the interface that has the rack's subnet")
		r.drop(o, "spec.preferredNodeSelectors", "the controller spreads VIPs over the machines; one VIP is kept on a machine by the annotation plinth.dev/home of its Service")
		all = append(all, advertisement{o, a.Spec.IPAddressPools, a.Spec.IPAddressPoolSelectors, a.Spec.NodeSelectors, nil, servicesOf(a.Spec.ServiceSelectors), newAdvertise(), nil})
	}
	return all
}

// selectorsOf are all selectors of Nodes.
func selectorsOf(peers []metalLBPeer, advertisements ...advertisement) (all []inventory.Selector) {
	for _, p := range peers {
		all = append(all, selectors(p.spec.NodeSelectors)...)
	}
	for _, a := range advertisements {
		all = append(all, selectors(a.nodes)...)
	}
	return all
}

// placed are advertisements with their racks, routers and communities. One that is for nobody is left out.
func (r *metalLBReader) placed(all []advertisement) (out []advertisement) {
	for _, a := range all {
		chosen := selectors(a.nodes)
		if r.places.nobody(chosen) {
			r.leaveOut(a.object, "spec.nodeSelectors", NotValid, "no Node that was read has these labels: it is left out")
			continue
		}
		if a.one.Routers = r.told(a); len(a.peers) > 0 && len(a.one.Routers) == 0 {
			r.leaveOut(a.object, "spec.peers", NotValid, "is for no router that is in the inventory: it is left out")
			continue
		}
		a.one.Racks = r.places.of(a.object, "spec.nodeSelectors", chosen)
		a.one.Communities = r.communities(a)
		out = append(out, a)
	}
	return out
}

// advertise gives a pool what BGPAdvertisements say of it.
func (r *metalLBReader) advertise(p *metalLBPool, all []advertisement) {
	for _, a := range all {
		if !p.chooses(a) {
			continue
		}
		p.chosen++
		r.comment("spec.pools["+p.pool.Name+"]", a.object)
		for _, s := range a.each {
			one := a.one
			one.Selector = s
			r.addAdvertisement(p, a.object, one)
		}
	}
	r.narrowFirst(p)
}

// narrowFirst puts advertisements of some Services before those of all. MetalLB joins the communities of all that are of a Service; in an
// inventory the first one counts, which so has them all.
func (r *metalLBReader) narrowFirst(p *metalLBPool) {
	all := p.pool.Advertise
	for i := range all {
		for _, wide := range all {
			if one := &all[i]; !one.Selector.Empty() && wide.Selector.Empty() && one.Aggregate == wide.Aggregate && covers(wide.Racks, one.Racks) && covers(wide.Routers, one.Routers) {
				one.Communities = joined(one.Communities, wide.Communities)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b inventory.Advertise) int {
		switch {
		case a.Selector.Empty() == b.Selector.Empty():
			return 0
		case a.Selector.Empty():
			return 1
		}
		return -1
	})
}

// covers reports whether a list of which an empty one means all has all of another one.
func covers(wide, narrow []string) bool {
	return len(wide) == 0 || len(narrow) > 0 && !slices.ContainsFunc(narrow, func(s string) bool { return !slices.Contains(wide, s) })
}

// joined are the communities of both.
func joined(a, b inventory.Communities) inventory.Communities {
	return inventory.CommunitiesOf(append(slices.Collect(a.All()), slices.Collect(b.All())...)...)
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
	for i, text := range a.texts {
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
	for i, peer := range a.peers {
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
		same := have.Selector.String() == one.Selector.String()
		if have.Aggregate != one.Aggregate || apart(have.Selector, one.Selector) || !meet(have.Racks, one.Racks) || !meet(have.Routers, one.Routers) {
			continue
		}
		alike := have.LocalPref == one.LocalPref && have.Prepend == one.Prepend
		if same && alike && slices.Equal(have.Racks, one.Racks) && slices.Equal(have.Routers, one.Routers) {
			have.Communities = joined(have.Communities, one.Communities)
			return
		}
		if !alike || have.Communities != one.Communities && (same || !have.Selector.Empty() && !one.Selector.Empty()) {
			r.note(o, "spec", Differs, fmt.Sprintf("of pool %s another advertisement says other things to the same routers: in the inventory the first one counts", p.pool.Name))
		}
	}
	p.pool.Advertise = append(p.pool.Advertise, one)
}

// apart reports whether two selectors choose no Service both: they want other values of one label.
func apart(a, b inventory.Selector) bool {
	for key, value := range a.MatchLabels {
		if other, ok := b.MatchLabels[key]; ok && other != value {
			return true
		}
	}
	return false
}

// meet reports whether two lists of which an empty one means all have something in common.
func meet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// answer gives a pool what L2Advertisements say of it: its addresses are announced on their subnet.
func (r *metalLBReader) answer(p *metalLBPool, all []advertisement) {
	for _, a := range all {
		if !p.chooses(a) {
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
		for _, s := range a.each {
			one := a.one
			one.Selector = s
			if !slices.ContainsFunc(p.pool.Advertise, func(have inventory.Advertise) bool {
				return have.Selector.String() == s.String() && slices.Equal(have.Racks, one.Racks)
			}) {
				p.pool.Advertise = append(p.pool.Advertise, one)
			}
		}
	}
	if p.pool.Via == inventory.ViaLink {
		r.places.subnetsFor(p.object, "spec.addresses", &p.pool)
	}
}
