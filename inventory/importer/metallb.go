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

func readMetalLB(d *draft) {
	r := &metalLBReader{draft: d, profiles: map[string]string{}, aliases: map[string]inventory.Community{}, routers: map[string]string{}}
	d.pass(metalLB, "ServiceL2Status", "ServiceBGPStatus", "BGPSessionStatus", "ConfigurationState") // what is, not what is to be
	r.readProfiles()
	r.readAliases()
	peers := r.readPeers()
	advertisements, onLink := r.readAdvertisements(), r.readL2Advertisements()
	r.places = placesOf(d, selectorsOf(peers, slices.Concat(advertisements, onLink)...))
	r.addPeers(peers)
	r.readPools()
	onLink = r.placed(onLink)
	if len(peers) == 0 {
		advertisements = r.withoutPeers(advertisements, onLink)
	}
	advertisements = r.placed(advertisements)
	for i := range r.pools {
		r.advertise(&r.pools[i], advertisements)
		r.answer(&r.pools[i], onLink)
	}
	for _, a := range slices.Concat(advertisements, onLink) {
		r.missing(a)
		r.tellIdle(a.says)
	}
	r.overBGP()
	r.addPools()
}

// readProfiles carries BFD timers over. Plinth has one interval for both ways: the larger, so that nothing is taken for dead that was not
// before.
func (r *metalLBReader) readProfiles() {
	for _, o := range r.of(metalLB, "BFDProfile") {
		p, ok := decode[v1beta1.BFDProfile](r.draft, o)
		if !ok {
			continue
		}
		const usual = 300 // milliseconds, where MetalLB is told nothing
		receive, transmit := orElse(p.Spec.ReceiveInterval, usual), orElse(p.Spec.TransmitInterval, usual)
		o.mark(carried, "spec.receiveInterval", "spec.transmitInterval", "spec.detectMultiplier")
		if receive != transmit {
			path, of := "spec.receiveInterval", receive
			if receive > transmit {
				path, of = "spec.transmitInterval", transmit
			}
			o.mark(noted, path)
			r.note(o, path, NoCounterpart, fmt.Sprintf("%d ms; Plinth has one interval for both ways, %d ms", of, max(receive, transmit)))
		}
		r.drop(o, "spec.echoInterval", "Plinth has no BFD echo")
		r.dropUnless(o, "spec.echoMode", "false", "Plinth has no BFD echo: failures are found by control packets")
		r.dropUnless(o, "spec.passiveMode", "false", "Plinth's BFD sends from the start, as the active end (RFC 5880, section 6.1)")
		r.drop(o, "spec.minimumTtl", "Plinth takes BFD packets over multihop of any TTL (RFC 5883)")
		name := r.name(o, profileName, "peers refer to it")
		r.profiles[o.name] = name
		r.comment("spec.bfdProfiles["+name+"]", o)
		r.inv.BFDProfiles = append(r.inv.BFDProfiles, inventory.BFDProfile{
			Name: name, Interval: time.Duration(max(receive, transmit)) * time.Millisecond, Multiplier: uint8(min(orElse(p.Spec.DetectMultiplier, 3), 255)),
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
	for _, o := range r.of(metalLB, "Community") {
		c, ok := decode[v1beta1.Community](r.draft, o)
		if !ok {
			continue
		}
		o.mark(meaningless, "metadata.name")
		o.mark(carried, "spec.communities")
		for i, alias := range c.Spec.Communities {
			path := fmt.Sprintf("spec.communities[%d]", i)
			value, err := inventory.ParseCommunity(alias.Value)
			if err != nil {
				o.mark(noted, path)
				r.note(o, path, NotValid, fmt.Sprintf("%v; the name %q is left out", err, alias.Name))
				continue
			}
			if known, err := inventory.ParseCommunity(strings.ToLower(strings.ReplaceAll(alias.Name, "_", "-"))); err == nil && known == value {
				o.mark(meaningless, path) // every inventory has that name
				r.aliases[alias.Name] = value
				continue
			}
			if have, twice := r.aliases[alias.Name]; twice && have == value {
				continue // in another object, or in this one
			}
			name, same := r.newName(communityName, alias.Name)
			if !same {
				r.note(o, path+".name", Renamed, fmt.Sprintf("%q is %q in the inventory", alias.Name, name))
			}
			r.aliases[alias.Name] = value
			if r.inv.Communities == nil {
				r.inv.Communities = map[string]inventory.Community{}
			}
			r.inv.Communities[name] = value
			r.comment("spec.communities", o)
		}
	}
}

// readPools carries pools over, without what their advertisements say.
func (r *metalLBReader) readPools() {
	objects := r.of(metalLB, "IPAddressPool")
	for _, o := range objects {
		p, ok := decode[v1beta1.IPAddressPool](r.draft, o)
		if !ok {
			continue
		}
		pool := newPool(r.name(o, poolName, "Services that ask for it by the annotation metallb.io/address-pool have to ask for the other name"))
		o.mark(carried, "spec.addresses", "spec.autoAssign", "spec.avoidBuggyIPs", "spec.serviceAllocation")
		pool.AutoAssign = orElse(p.Spec.AutoAssign, true)
		pool.Ranges = r.ranges(o, pool.Name, p.Spec.Addresses)
		switch {
		case !slices.ContainsFunc(pool.Ranges, hasBuggy):
			o.mark(meaningless, "spec.avoidBuggyIPs")
		case p.Spec.AvoidBuggyIPs:
			pool.Exclude = r.buggy(o, "spec.avoidBuggyIPs", pool.Ranges)
		}
		if a := p.Spec.AllocateTo; a != nil {
			pool.Namespaces = a.Namespaces
			pool.NamespaceSelectors, pool.Selectors = selectors(a.NamespaceSelectors), selectors(a.ServiceSelectors)
			pool.Priority = r.priority(o, a.Priority)
		}
		if len(pool.Ranges) == 0 {
			r.leaveOutPool(o, "spec.addresses")
			continue
		}
		r.comment("spec.pools["+pool.Name+"]", o)
		r.pools = append(r.pools, metalLBPool{object: o, labels: p.Labels, pool: pool, pinned: p.Spec.AllocateTo != nil})
	}
	r.orderPools()
}

// mostPriority is the last priority that is taken over. An inventory has 1000000 at most, and others come after it.
const mostPriority = 999_000

func (r *metalLBReader) priority(o *object, given int) int {
	if given < 0 || given > mostPriority {
		o.mark(noted, "spec.serviceAllocation.priority")
		r.note(o, "spec.serviceAllocation.priority", NoCounterpart, fmt.Sprintf("%d; an inventory has 1000000 at most, and the pool gets %d", given, max(0, min(given, mostPriority))))
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

// overBGP says so of pools with BGPAdvertisements that lie in a subnet which was guessed for another one.
func (r *metalLBReader) overBGP() {
	for i := range r.pools {
		p := &r.pools[i].pool
		if p.Via != "" || len(p.Advertise) == 0 {
			continue
		}
		for _, rack := range r.inv.Racks {
			for _, s := range rack.Subnets {
				if slices.ContainsFunc(p.Ranges, inventory.RangeOf(s).Overlaps) {
					p.Via = inventory.ViaBGP
				}
			}
		}
	}
}

// ranges reads the addresses of a pool.
func (r *metalLBReader) ranges(o *object, pool string, addresses []string) (all []inventory.Range) {
	for i, text := range addresses {
		one, err := r.takeRange(text, pool)
		if err != nil {
			path := fmt.Sprintf("spec.addresses[%d]", i)
			o.mark(noted, path)
			r.note(o, path, NotValid, fmt.Sprintf("%v: it is left out", err))
			continue
		}
		all = append(all, one)
	}
	return all
}

// buggyAtMost bounds what is excluded from a pool by its last byte.
const buggyAtMost = 1024

// buggy are the addresses that end with .0 and .255, which MetalLB does not give with avoidBuggyIPs, and kube-vip never.
func (d *draft) buggy(o *object, path string, ranges []inventory.Range) (all []inventory.Range) {
	for _, one := range ranges {
		if !one.Is4() {
			continue
		}
		for a := one.First; a.IsValid() && one.Contains(a); a = nextBuggy(a) {
			if last := a.As4()[3]; last != 0 && last != 255 {
				continue
			}
			if n := len(all); n > 0 && all[n-1].Last.Next() == a && one.Contains(all[n-1].Last) {
				all[n-1].Last = a
				continue
			}
			if len(all) == buggyAtMost {
				o.mark(noted, path)
				d.note(o, path, NoCounterpart, fmt.Sprintf("the pool has addresses that end with .0 and .255 in more than %d places; exclude those that are not to be given", buggyAtMost))
				return nil
			}
			all = append(all, inventory.Range{First: a, Last: a})
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
func (r *metalLBReader) missing(a advertisement) {
	o := a.object
	tell := func(path, message string) {
		o.mark(noted, path)
		r.note(o, path, NotValid, message)
	}
	for i, name := range a.pools {
		path := fmt.Sprintf("spec.ipAddressPools[%d]", i)
		if !slices.ContainsFunc(r.pools, func(p metalLBPool) bool { return p.object.name == name }) {
			tell(path, fmt.Sprintf("there is no IPAddressPool %q in what was read", name))
		} else if slices.Contains(a.pools[:i], name) {
			tell(path, "is there twice")
		}
	}
	labels, named := make([]map[string]string, len(r.pools)), make([]bool, len(r.pools))
	for i, p := range r.pools {
		labels[i], named[i] = p.labels, slices.Contains(a.pools, p.object.name)
	}
	for _, idle := range idleParts(func(i int) string { return fmt.Sprintf("spec.ipAddressPoolSelectors[%d]", i) }, "IPAddressPool", selectors(a.by), labels, named) {
		tell(idle.path, idle.message)
	}
}

// chooses reports whether an advertisement is of a pool: by its name, by its labels, or of all where it says neither.
func (p metalLBPool) chooses(a advertisement) bool {
	if len(a.pools) == 0 && len(a.by) == 0 {
		return true
	}
	return slices.Contains(a.pools, p.object.name) || slices.ContainsFunc(selectors(a.by), func(s inventory.Selector) bool { return s.Matches(p.labels) })
}

// selectors are those of Kubernetes in the inventory's own type.
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
