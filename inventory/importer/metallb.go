package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.universe.tf/metallb/api/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// metalLB is the API group of MetalLB's resources.
const metalLB = "metallb.io"

// metalLBKinds are MetalLB's resources as of v0.16.2, whose types they are read by. Those of versions before differ by fewer fields.
var metalLBKinds = slices.Concat(kindsOf(metalLB, "v1beta1", "IPAddressPool", "BFDProfile", "Community", "BGPAdvertisement", "L2Advertisement"), kindsOf(metalLB, "v1beta2", "BGPPeer"))

// metalLBReader carries MetalLB's resources over.
type metalLBReader struct {
	*draft
	profiles map[string]string              // BFD profiles by MetalLB's name
	aliases  map[string]inventory.Community // by MetalLB's name
	routers  map[string]string              // by the name of the BGPPeer
	pools    []metalLBPool
	places   places
}

type metalLBPool struct {
	object *object
	labels map[string]string
	pool   inventory.Pool
	pinned bool // it has a serviceAllocation
	chosen int  // advertisements that choose it
	noBGP  bool // nobody speaks BGP, and it is answered for on the link
}

func readMetalLB(draft *draft) {
	reader := &metalLBReader{draft: draft, profiles: map[string]string{}, aliases: map[string]inventory.Community{}, routers: map[string]string{}}
	draft.pass(metalLB, "ServiceL2Status", "ServiceBGPStatus", "BGPSessionStatus", "ConfigurationState") // what is, not what is to be
	reader.readProfiles()
	reader.readAliases()
	peers := reader.readPeers()
	advertisements, onLink := reader.readAdvertisements(), reader.readL2Advertisements()
	reader.places = placesOf(draft, selectorsOf(peers, slices.Concat(advertisements, onLink)...))
	reader.addPeers(peers)
	reader.readPools()
	onLink = reader.placed(onLink)
	if len(peers) == 0 {
		advertisements = reader.withoutPeers(advertisements, onLink)
	}
	advertisements = reader.placed(advertisements)
	for i := range reader.pools {
		reader.advertise(&reader.pools[i], advertisements)
		reader.answer(&reader.pools[i], onLink)
	}
	for _, a := range slices.Concat(advertisements, onLink) {
		reader.missing(a)
		reader.tellIdle(a.says)
	}
	reader.overBGP()
	reader.addPools()
}

// readProfiles carries BFD timers over. Plinth has one interval for both ways: the larger, so that nothing is taken for dead that was not
// before.
func (r *metalLBReader) readProfiles() {
	for object, profile := range decoded[v1beta1.BFDProfile](r.draft, metalLB, "BFDProfile") {
		const usual = 300 // milliseconds, where MetalLB is told nothing
		receive, transmit := orElse(profile.Spec.ReceiveInterval, usual), orElse(profile.Spec.TransmitInterval, usual)
		object.mark(carried, "spec.receiveInterval", "spec.transmitInterval", "spec.detectMultiplier")
		if receive != transmit {
			path, of := "spec.receiveInterval", receive
			if receive > transmit {
				path, of = "spec.transmitInterval", transmit
			}
			r.markAndNote(object, path, NoCounterpart, fmt.Sprintf("%d ms; Plinth has one interval for both ways, %d ms", of, max(receive, transmit)))
		}
		r.drop(object, "spec.echoInterval", "Plinth has no BFD echo")
		r.dropUnless(object, "spec.echoMode", "false", "Plinth has no BFD echo: failures are found by control packets")
		r.dropUnless(object, "spec.passiveMode", "false", "Plinth's BFD sends from the start, as the active end (RFC 5880, section 6.1)")
		r.drop(object, "spec.minimumTtl", "Plinth takes BFD packets over multihop of any TTL (RFC 5883)")
		name := r.name(object, profileName, "peers refer to it")
		r.profiles[object.name] = name
		r.comment("spec.bfdProfiles["+name+"]", object)
		r.inv.BFDProfiles = append(r.inv.BFDProfiles, inventory.BFDProfile{
			Name: name, Interval: time.Duration(max(receive, transmit)) * time.Millisecond, Multiplier: uint8(min(orElse(profile.Spec.DetectMultiplier, 3), 255)),
		})
	}
}

func orElse[T any](given *T, usual T) T {
	if given == nil {
		return usual
	}
	return *given
}

// readAliases carries names of communities over. Pools have their values.
func (r *metalLBReader) readAliases() {
	for object, community := range decoded[v1beta1.Community](r.draft, metalLB, "Community") {
		object.mark(meaningless, "metadata.name")
		object.mark(carried, "spec.communities")
		for i, alias := range community.Spec.Communities {
			path := fmt.Sprintf("spec.communities[%d]", i)
			value, err := inventory.ParseCommunity(alias.Value)
			if err != nil {
				r.markAndNote(object, path, NotValid, fmt.Sprintf("%v; the name %q is left out", err, alias.Name))
				continue
			}
			if known, err := inventory.ParseCommunity(strings.ToLower(strings.ReplaceAll(alias.Name, "_", "-"))); err == nil && known == value {
				object.mark(meaningless, path) // every inventory has that name
				r.aliases[alias.Name] = value
				continue
			}
			if have, twice := r.aliases[alias.Name]; twice && have == value {
				continue // in another object, or in this one
			}
			name, same := r.newName(communityName, alias.Name)
			if !same {
				r.note(object, path+".name", Renamed, fmt.Sprintf("%q is %q in the inventory", alias.Name, name))
			}
			r.aliases[alias.Name] = value
			put(&r.inv.Communities, name, value)
			r.comment("spec.communities", object)
		}
	}
}

// readPools carries pools over, without what their advertisements say.
func (r *metalLBReader) readPools() {
	for object, ipAddressPool := range decoded[v1beta1.IPAddressPool](r.draft, metalLB, "IPAddressPool") {
		pool := newPool(r.name(object, poolName, "Services that ask for it by the annotation metallb.io/address-pool have to ask for the other name"))
		object.mark(carried, "spec.addresses", "spec.autoAssign", "spec.avoidBuggyIPs", "spec.serviceAllocation")
		pool.AutoAssign = orElse(ipAddressPool.Spec.AutoAssign, true)
		pool.Ranges = r.ranges(object, pool.Name, ipAddressPool.Spec.Addresses)
		switch {
		case !slices.ContainsFunc(pool.Ranges, hasBuggy):
			object.mark(meaningless, "spec.avoidBuggyIPs")
		case ipAddressPool.Spec.AvoidBuggyIPs:
			pool.Exclude = r.buggy(object, "spec.avoidBuggyIPs", pool.Ranges)
		}
		if a := ipAddressPool.Spec.AllocateTo; a != nil {
			pool.Namespaces = a.Namespaces
			pool.NamespaceSelectors, pool.Selectors = selectors(a.NamespaceSelectors), selectors(a.ServiceSelectors)
			pool.Priority = r.priority(object, a.Priority)
		}
		if len(pool.Ranges) == 0 {
			r.leaveOutPool(object, "spec.addresses")
			continue
		}
		r.comment("spec.pools["+pool.Name+"]", object)
		r.pools = append(r.pools, metalLBPool{object: object, labels: ipAddressPool.Labels, pool: pool, pinned: ipAddressPool.Spec.AllocateTo != nil})
	}
	r.orderPools()
}

// mostPriority is the last priority that is taken over. An inventory has 1000000 at most, and others come after it.
const mostPriority = 999_000

func (r *metalLBReader) priority(o *object, given int) int {
	if given < 0 || given > mostPriority {
		r.markAndNote(o, "spec.serviceAllocation.priority", NoCounterpart, fmt.Sprintf("%d; an inventory has 1000000 at most, and the pool gets %d", given, max(0, min(given, mostPriority))))
	}
	return max(0, min(given, mostPriority))
}

// orderPools has pools with a serviceAllocation come before those without, and without a priority after those that have one, as MetalLB tries
// them. Plinth tries lower numbers first, and 0 before all.
func (r *metalLBReader) orderPools() {
	pinned, last := false, 0
	for _, p := range r.pools {
		pinned, last = pinned || p.pinned, max(last, p.pool.Priority)
	}
	for i := range r.pools {
		switch p := &r.pools[i]; {
		case !pinned || p.pool.Priority != 0:
		case p.pinned:
			p.pool.Priority = last + 10
		default:
			p.pool.Priority = last + 20
		}
	}
}

// overBGP sets via: bgp for pools with BGPAdvertisements that lie in a subnet which was guessed for another one.
func (r *metalLBReader) overBGP() {
	for i := range r.pools {
		pool := &r.pools[i].pool
		if pool.Via != "" || len(pool.Advertise) == 0 {
			continue
		}
		for _, rack := range r.inv.Racks {
			for _, s := range rack.Subnets {
				if slices.ContainsFunc(pool.Ranges, inventory.RangeOf(s).Overlaps) {
					pool.Via = inventory.ViaBGP
				}
			}
		}
	}
}

// ranges reads the addresses of a pool.
func (r *metalLBReader) ranges(object *object, pool string, addresses []string) (all []inventory.Range) {
	for i, text := range addresses {
		one, err := r.takeRange(text, pool)
		if err != nil {
			r.markAndNote(object, fmt.Sprintf("spec.addresses[%d]", i), NotValid, fmt.Sprintf("%v: it is left out", err))
			continue
		}
		all = append(all, one)
	}
	return all
}

// buggyAtMost bounds what is excluded from a pool by its last byte.
const buggyAtMost = 1024

// buggy are the addresses that end with .0 and .255, which MetalLB does not give with avoidBuggyIPs, and kube-vip never.
func (d *draft) buggy(object *object, path string, ranges []inventory.Range) (all []inventory.Range) {
	for _, one := range ranges {
		if !one.Is4() {
			continue
		}
		for addr := one.First; addr.IsValid() && one.Contains(addr); addr = nextBuggy(addr) {
			if last := addr.As4()[3]; last != 0 && last != 255 {
				continue
			}
			if n := len(all); n > 0 && all[n-1].Last.Next() == addr && one.Contains(all[n-1].Last) {
				all[n-1].Last = addr
				continue
			}
			if len(all) == buggyAtMost {
				d.markAndNote(object, path, NoCounterpart, fmt.Sprintf("the pool has addresses that end with .0 and .255 in more than %d places; exclude those that are not to be given", buggyAtMost))
				return nil
			}
			all = append(all, inventory.Range{First: addr, Last: addr})
		}
	}
	return all
}

// hasBuggy reports whether an address of a range ends with .0 or .255.
func hasBuggy(one inventory.Range) bool {
	if !one.Is4() {
		return false
	}
	last := one.First.As4()[3]
	return last == 0 || last == 255 || one.Contains(nextBuggy(one.First))
}

// nextBuggy is the next address that ends with .0 or .255.
func nextBuggy(a netip.Addr) netip.Addr {
	b := a.As4()
	if b[3] == 255 {
		return a.Next()
	}
	b[3] = 255
	return netip.AddrFrom4(b)
}

// addPools puts the pools into the inventory.
func (r *metalLBReader) addPools() {
	for _, p := range r.pools {
		if p.chosen == 0 {
			r.note(p.object, "", Differs, "no advertisement chooses this pool, so that MetalLB announces nothing of it; Plinth does. Leave it out, or say state: disabled")
		}
		r.inv.Pools = append(r.inv.Pools, p.pool)
	}
}

// missing notes pools that an advertisement names and that are not there.
func (r *metalLBReader) missing(advertisement advertisement) {
	o := advertisement.object
	for i, name := range advertisement.pools {
		path := fmt.Sprintf("spec.ipAddressPools[%d]", i)
		if !slices.ContainsFunc(r.pools, func(p metalLBPool) bool { return p.object.name == name }) {
			r.markAndNote(o, path, NotValid, fmt.Sprintf("there is no IPAddressPool %q in what was read", name))
		} else if slices.Contains(advertisement.pools[:i], name) {
			r.markAndNote(o, path, NotValid, "is there twice")
		}
	}
	labels, named := make([]map[string]string, len(r.pools)), make([]bool, len(r.pools))
	for i, p := range r.pools {
		labels[i], named[i] = p.labels, slices.Contains(advertisement.pools, p.object.name)
	}
	for _, idle := range idleParts(func(i int) string { return fmt.Sprintf("spec.ipAddressPoolSelectors[%d]", i) }, "IPAddressPool", selectors(advertisement.by), labels, named) {
		r.markAndNote(o, idle.path, NotValid, idle.message)
	}
}

// chooses reports whether an advertisement is of a pool: by its name, by its labels, or of all where it says neither.
func (p metalLBPool) chooses(a advertisement) bool {
	if len(a.pools) == 0 && len(a.by) == 0 {
		return true
	}
	return slices.Contains(a.pools, p.object.name) || slices.ContainsFunc(selectors(a.by), func(s inventory.Selector) bool { return s.Matches(p.labels) })
}

// selectors converts selectors of Kubernetes into the inventory's own type.
func selectors(all []metav1.LabelSelector) (out []inventory.Selector) {
	for _, s := range all {
		out = append(out, selector(s))
	}
	return out
}

func selector(s metav1.LabelSelector) inventory.Selector {
	out := inventory.Selector{MatchLabels: s.MatchLabels}
	for _, e := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, inventory.Requirement{Key: e.Key, Operator: inventory.Operator(e.Operator), Values: e.Values})
	}
	return out
}
