package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
	says   []*statement         // for each of these Services
}

// statementsOf are an object's, one for each selector of Services.
func statementsOf(o *object, each []inventory.Selector) (all []*statement) {
	if len(each) == 1 {
		return []*statement{{object: o, path: "spec"}}
	}
	for i := range each {
		all = append(all, &statement{object: o, path: fmt.Sprintf("spec.serviceSelectors[%d]", i)})
	}
	return all
}

// servicesOf are selectors of Services, or one of all of them.
func servicesOf(all []metav1.LabelSelector) []inventory.Selector {
	if len(all) == 0 {
		return []inventory.Selector{{}}
	}
	return selectors(all)
}

func (r *metalLBReader) readAdvertisements() (all []advertisement) {
	for object, bgpAdvertisement := range decoded[v1beta1.BGPAdvertisement](r.draft, metalLB, "BGPAdvertisement") {
		object.mark(meaningless, "metadata.name") // nothing refers to it
		object.mark(carried, "spec.aggregationLength", "spec.aggregationLengthV6", "spec.localPref", "spec.asPathPrepend", "spec.communities", "spec.ipAddressPools",
			"spec.ipAddressPoolSelectors", "spec.nodeSelectors", "spec.peers", "spec.serviceSelectors")
		one := newAdvertise()
		one.Aggregate = inventory.PrefixLengths{IPv4: int(orElse(bgpAdvertisement.Spec.AggregationLength, 32)), IPv6: int(orElse(bgpAdvertisement.Spec.AggregationLengthV6, 128))}
		one.LocalPref, one.Prepend = localPref(bgpAdvertisement.Spec.LocalPref), bgpAdvertisement.Spec.AsPathPrepend
		each := servicesOf(bgpAdvertisement.Spec.ServiceSelectors)
		all = append(all, advertisement{object, bgpAdvertisement.Spec.IPAddressPools, bgpAdvertisement.Spec.IPAddressPoolSelectors, bgpAdvertisement.Spec.NodeSelectors, bgpAdvertisement.Spec.Peers, each, one, bgpAdvertisement.Spec.Communities, statementsOf(object, each)})
	}
	return all
}

func (r *metalLBReader) readL2Advertisements() (all []advertisement) {
	for object, l2Advertisement := range decoded[v1beta1.L2Advertisement](r.draft, metalLB, "L2Advertisement") {
		object.mark(meaningless, "metadata.name")
		object.mark(carried, "spec.ipAddressPools", "spec.ipAddressPoolSelectors", "spec.nodeSelectors", "spec.serviceSelectors")
		r.drop(object, "spec.interfaces", "a machine answers on the interface that has the rack's subnet")
		r.drop(object, "spec.preferredNodeSelectors", "the controller spreads VIPs over the machines; one VIP is kept on a machine by the annotation plinth.dev/home of its Service")
		each := servicesOf(l2Advertisement.Spec.ServiceSelectors)
		all = append(all, advertisement{object, l2Advertisement.Spec.IPAddressPools, l2Advertisement.Spec.IPAddressPoolSelectors, l2Advertisement.Spec.NodeSelectors, nil, each, newAdvertise(), nil, statementsOf(object, each)})
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

// placed are advertisements with their racks, routers and communities. One that is for nobody, or of no pool, is left out, and makes no racks.
func (r *metalLBReader) placed(all []advertisement) (out []advertisement) {
	for _, advertisement := range all {
		chosen := selectors(advertisement.nodes)
		if !slices.ContainsFunc(r.pools, func(p metalLBPool) bool { return p.chooses(advertisement) }) {
			r.leaveOut(advertisement.object, "spec", NotValid, "chooses no IPAddressPool of those that were read: it is left out")
			continue
		}
		if r.places.nobody(chosen) {
			r.leaveOut(advertisement.object, "spec.nodeSelectors", NotValid, "no Node that was read has these labels: it is left out")
			continue
		}
		if advertisement.one.Routers = r.told(advertisement); len(advertisement.peers) > 0 && len(advertisement.one.Routers) == 0 {
			r.leaveOut(advertisement.object, "spec.peers", NotValid, "is for no router that is in the inventory: it is left out")
			continue
		}
		advertisement.one.Racks = r.places.of(advertisement.object, "spec.nodeSelectors", chosen)
		advertisement.one.Communities = r.communities(advertisement)
		out = append(out, advertisement)
	}
	return out
}

// withoutPeers are the BGPAdvertisements that count where no BGPPeer was read: not for pools that an L2Advertisement chooses, too. MetalLB has no session to
// announce these on, and answers for them.
func (r *metalLBReader) withoutPeers(all, onLink []advertisement) (out []advertisement) {
	for i := range r.pools {
		p := &r.pools[i]
		p.noBGP = slices.ContainsFunc(onLink, p.chooses)
	}
	for _, advertisement := range all {
		var answered []string
		count := 0
		for _, p := range r.pools {
			if !p.chooses(advertisement) {
				continue
			}
			if count++; p.noBGP {
				answered = append(answered, p.pool.Name)
			}
		}
		why := fmt.Sprintf("no BGPPeer was read, and an L2Advertisement chooses pool %s, too: it is announced on the link alone", strings.Join(answered, ", "))
		switch {
		case len(answered) == 0:
			out = append(out, advertisement)
		case len(answered) == count:
			r.leaveOut(advertisement.object, "spec", Differs, why)
		default:
			r.note(advertisement.object, "spec", Differs, why)
			out = append(out, advertisement)
		}
	}
	return out
}

// advertise gives a pool what BGPAdvertisements say of it.
func (r *metalLBReader) advertise(pool *metalLBPool, all []advertisement) {
	var from []*statement
	for _, advertisement := range all {
		if !pool.chooses(advertisement) || pool.noBGP {
			continue
		}
		pool.chosen++
		r.comment("spec.pools["+pool.pool.Name+"]", advertisement.object)
		for i, s := range advertisement.each {
			one := advertisement.one
			one.Selector = s
			r.tellUnlike(pool, from, advertisement.object, one)
			pool.pool.Advertise, from = append(pool.pool.Advertise, one), append(from, advertisement.says[i])
		}
	}
	r.unite(pool.object, &pool.pool, from)
}

// localPref returns the LOCAL_PREF for routers of our AS. MetalLB sends 0 where none is given, FRR 100 then.
func localPref(given uint32) uint32 {
	if given == 0 {
		return 100
	}
	return given
}

// communities returns the communities of an advertisement, by value.
func (r *metalLBReader) communities(advertisement advertisement) inventory.Communities {
	var all []inventory.Community
	for i, text := range advertisement.texts {
		if c, ok := r.aliases[text]; ok {
			all = append(all, c)
			continue
		}
		community, err := inventory.ParseCommunity(text)
		if err != nil {
			r.markAndNote(advertisement.object, fmt.Sprintf("spec.communities[%d]", i), NotValid, fmt.Sprintf("there is no Community that is named %q, and it is none itself: it is left out", text))
			continue
		}
		all = append(all, community)
	}
	return inventory.CommunitiesOf(all...)
}

// told are the routers of an advertisement.
func (r *metalLBReader) told(advertisement advertisement) (names []string) {
	for i, peer := range advertisement.peers {
		if name, ok := r.routers[peer]; ok {
			names = append(names, name)
			continue
		}
		r.markAndNote(advertisement.object, fmt.Sprintf("spec.peers[%d]", i), NotValid, fmt.Sprintf("there is no router for BGPPeer %q", peer))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, peer := range slices.Sorted(maps.Keys(r.routers)) {
		if name := r.routers[peer]; slices.Contains(names, name) && !slices.Contains(advertisement.peers, peer) {
			r.markAndNote(advertisement.object, "spec.peers", Differs, fmt.Sprintf("BGPPeer %q is router %s, too: the machines of both announce to it. advertise.racks of the pool chooses some", peer, name))
		}
	}
	return names
}

// tellUnlike notes where two advertisements of a pool want another local preference or path: the higher one is taken.
func (r *metalLBReader) tellUnlike(p *metalLBPool, from []*statement, o *object, one inventory.Advertise) {
	for i, have := range p.pool.Advertise {
		if _, meet := common(have, one); meet {
			r.tellLower(p.pool.Name, "spec.localPref", said{from[i].object, have.LocalPref}, said{o, one.LocalPref})
			r.tellLower(p.pool.Name, "spec.asPathPrepend", said{from[i].object, uint32(have.Prepend)}, said{o, uint32(one.Prepend)})
		}
	}
}

// answer gives a pool what L2Advertisements say of it: its addresses are announced on their subnet.
func (r *metalLBReader) answer(pool *metalLBPool, all []advertisement) {
	var from []*statement
	for _, advertisement := range all {
		if !pool.chooses(advertisement) {
			continue
		}
		pool.chosen++
		r.comment("spec.pools["+pool.pool.Name+"]", advertisement.object)
		if len(pool.pool.Advertise) > 0 && pool.pool.Via != inventory.ViaLink {
			r.markAndNote(advertisement.object, "spec", Differs, fmt.Sprintf("pool %s is announced over BGP, too: Plinth announces an address one way, and takes BGP", pool.pool.Name))
			continue
		}
		pool.pool.Via = inventory.ViaLink
		for i, s := range advertisement.each {
			one := advertisement.one
			one.Selector = s
			pool.pool.Advertise, from = append(pool.pool.Advertise, one), append(from, advertisement.says[i])
		}
	}
	if pool.pool.Via == inventory.ViaLink {
		r.unite(pool.object, &pool.pool, from)
		r.places.subnetsFor(pool.object, "spec.addresses", &pool.pool)
	}
}
