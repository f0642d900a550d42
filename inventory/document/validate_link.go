package document

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
)

// linkChecks are the checks of what is announced on links.
type linkChecks struct{ *validation }

// links checks what is announced on subnets of machines.
func (v linkChecks) links() {
	v.witnesses(&v.raw.OnLink, v.raw.allSubnets())
	for r := range v.raw.Racks.each() {
		v.witnesses(&r.OnLink, r.Subnets.v)
	}
	v.sameOnLink()
	for _, l := range v.inv.Links() {
		v.noWitness(l)
		v.tooMany(l)
	}
	for raw := range v.raw.Pools.each() {
		pool, _ := v.inv.Pool(raw.Name.v)
		for _, r := range raw.Addresses.v {
			v.onSubnetUnsaid(pool, r)
			v.onLink(raw, pool, r)
		}
		if via := raw.via(); via.v == inventory.ViaLink && len(pool.Links) == 0 {
			v.refuse(via.node, refusal{code: inventory.LinkWithoutSubnet, message: "no address of the pool lies in a subnet of a rack, so there is no link to announce one on",
				accepted: "subnets of a rack that hold addresses of the pool, or via: bgp", suggestion: cmp.Or(v.networkFor(pool), "bgp")}, raw.Addresses.node)
		}
		if pool.OnLinksOnly() {
			for a := range raw.Advertise.each() {
				v.unusedOnLink(a)
			}
		}
	}
}

// viaAgrees refuses a pool of which two advertisements differ in via: which of them a Service is
// announced by changes with its labels, and an address must not change its way with these.
func (v linkChecks) viaAgrees() {
	for p := range v.raw.Pools.each() {
		said := p.via()
		for a := range p.Advertise.each() {
			if a.Via.given() && a.Via.v != said.v {
				v.refuse(a.Via.node, refusal{code: inventory.ViaDisagrees, message: fmt.Sprintf("another advertisement of the pool says via: %s", said.v),
					accepted: "the same in each of the pool's advertisements, or two pools", suggestion: string(said.v)}, said.node)
			}
		}
	}
}

// onSubnetUnsaid refuses a range on a subnet of which it is not clear how its VIPs are to be announced:
// hosts there look for them on the wire, and the machines have routers, too.
func (v linkChecks) onSubnetUnsaid(p inventory.Pool, scalar scalar[inventory.Range]) {
	if p.Via != "" {
		return
	}
	for _, s := range v.raw.allSubnets() {
		if !scalar.v.Overlaps(inventory.RangeOf(s.v)) || slices.Contains(p.Links, s.v) || !givesOn(p, scalar.v, s.v) {
			continue
		}
		v.refuse(scalar.node, refusal{code: inventory.PoolOnSubnet, message: "lies on the subnet " + s.v.String() + ", whose hosts look for it on the wire, and whose machines have routers",
			accepted: "via: link to answer on the subnet, or via: bgp to announce it to the routers alone, in the pool's advertise; or addresses outside every subnet", suggestion: "advertise: {via: link}"}, s.node)
		return
	}
}

// onLink checks one range against each link that it is on.
func (v linkChecks) onLink(raw *rawPool, pool inventory.Pool, scalar scalar[inventory.Range]) {
	for _, subnet := range pool.Links {
		if !givesOn(pool, scalar.v, subnet) {
			continue
		}
		if l := v.inv.LinkAt(subnet); len(l.Machines) == 0 {
			v.refuse(scalar.node, refusal{code: inventory.LinkWithoutMachine, severity: inventory.Warning, message: "no machine has an address in the subnet " + subnet.String() + ", so nobody answers for VIPs there",
				accepted: "machines with an address in the subnet"}, v.subnetNode(subnet))
		}
		v.endsOf(raw, pool, scalar, subnet)
	}
	v.holdsWitness(pool, scalar)
}

// endsOf refuses the addresses of a subnet that no host can have: the first of IPv4 is the network's and
// the last reaches all hosts; the first of IPv6 is every router's (RFC 4291, section 2.6.1).
func (v linkChecks) endsOf(raw *rawPool, pool inventory.Pool, scalar scalar[inventory.Range], subnet netip.Prefix) {
	if subnet.Addr().BitLen()-subnet.Bits() < 2 {
		return // RFC 3021, RFC 6164
	}
	ends := map[netip.Addr]string{subnet.Addr(): "the network address"}
	if subnet.Addr().Is4() {
		ends[netipx.PrefixLastIP(subnet)] = "the broadcast address"
	} else {
		ends[subnet.Addr()] = "the address of all routers"
	}
	for _, a := range slices.SortedFunc(maps.Keys(ends), netip.Addr.Compare) {
		if raw.gives(scalar.v).Contains(a) && !inventory.InRanges(pool.Exclude, a) {
			v.refuse(scalar.node, refusal{code: inventory.PoolHoldsEnds, message: fmt.Sprintf("holds %s, %s of the subnet %s that it is on", a, ends[a], subnet),
				accepted: "addresses that a host of the subnet can have", suggestion: fmt.Sprintf("exclude: [%s]", quoted(a.String()))}, v.subnetNode(subnet))
		}
	}
}

// holdsWitness refuses a range that holds a witness: it would be given to a Service.
func (v linkChecks) holdsWitness(p inventory.Pool, r scalar[inventory.Range]) {
	for _, w := range v.allWitnesses() {
		_, isHost := v.hostAt(w.v)
		if r.v.Contains(w.v) && !inventory.InRanges(p.Exclude, w.v) && !isHost {
			v.refuse(r.node, refusal{code: inventory.PoolHoldsHost, message: "holds " + w.v.String() + ", a witness", accepted: "addresses that nothing else has",
				suggestion: fmt.Sprintf("exclude: [%s]", quoted(w.v.String()))}, w.node)
		}
	}
}

func (v linkChecks) allWitnesses() []scalar[netip.Addr] {
	out := slices.Clone(v.raw.OnLink.Witness.v)
	for r := range v.raw.Racks.each() {
		out = append(out, r.OnLink.Witness.v...)
	}
	return out
}

// noWitness warns of a link whose machines may have no witness: the inventory knows none, and their default
// gateway may be on another of their subnets.
func (v linkChecks) noWitness(link inventory.Link) {
	if len(link.Machines) < 2 || len(link.Witness) > 0 || !isElsewhereToo(v.inv, link.Subnet) {
		return
	}
	suggestion, gateway := "", link.Subnet.Masked().Addr().Next() // the address that most gateways have
	if !slices.ContainsFunc(link.Machines, func(m inventory.LinkMachine) bool { return m.Addr == gateway }) {
		suggestion = fmt.Sprintf("onLink: {witness: [%s]}", quoted(gateway.String()))
	}
	v.refuse(v.subnetNode(link.Subnet), refusal{code: inventory.LinkWithoutWitness, severity: inventory.Warning, suggestion: suggestion,
		message:  "machines answer for VIPs here and have another subnet, where their default gateway may be, so that they may have no witness here",
		accepted: "a host of the subnet under onLink.witness, or a router of the inventory with an address in it"})
}

// isElsewhereToo reports whether a machine of a subnet has an address of the same family in another one.
func isElsewhereToo(inv *inventory.Inventory, subnet netip.Prefix) bool {
	elsewhere := func(a netip.Addr) bool { return a.Is4() == subnet.Addr().Is4() && !subnet.Contains(a) }
	for m := range inv.Machines() {
		if m.State != inventory.StateRetired && slices.ContainsFunc(m.Addresses, subnet.Contains) && slices.ContainsFunc(m.Addresses, elsewhere) {
			return true
		}
	}
	return false
}

// linkMachines is with how many machines of a link it is measured that each watches all others.
const linkMachines = 32

// tooMany warns of a link of more machines than that.
func (v linkChecks) tooMany(l inventory.Link) {
	if n := len(l.Machines); n > linkMachines {
		v.refuse(v.subnetNode(l.Subnet), refusal{code: inventory.LinkOfMany, severity: inventory.Warning,
			message:  fmt.Sprintf("%d machines answer for VIPs here, and each watches all others", n),
			accepted: fmt.Sprintf("%d machines, or via: bgp in the pool's advertise", linkMachines), suggestion: v.overBGP(l)})
	}
}

// overBGP returns the text by which the pool that is on a link is announced over BGP instead, where it is the only one.
func (v linkChecks) overBGP(l inventory.Link) string {
	var on []*rawPool
	for raw := range v.raw.Pools.each() {
		if p, _ := v.inv.Pool(raw.Name.v); slices.Contains(p.Links, l.Subnet) {
			on = append(on, raw)
		}
	}
	if len(on) != 1 || len(on[0].Advertise.v) > 1 {
		return ""
	}
	return fmt.Sprintf("spec.pools[%s].advertise.via: bgp", on[0].Name.v)
}

// witnesses refuses a witness that is no evidence: outside the subnets it is not reached by ARP, and a
// machine sees itself when it is cut off.
func (v linkChecks) witnesses(o *rawOnLink, subnets []scalar[netip.Prefix]) {
	for _, scalar := range o.Witness.v {
		var words []string
		for _, s := range subnets {
			if s.v.Contains(scalar.v) {
				words = nil
				break
			}
			words = append(words, s.v.String())
		}
		slices.Sort(words)
		switch i, isHost := v.hostAt(scalar.v); {
		case len(words) > 0 || len(subnets) == 0:
			v.refuse(scalar.node, refusal{code: inventory.BadWitness, message: "is in none of the subnets that it is to be a witness on",
				accepted: "an address in " + cmp.Or(strings.Join(slices.Compact(words), " or "), "a subnet of the rack")})
		case isHost && strings.HasPrefix(v.ownerOf(v.hosts[i].node), "machine "):
			v.refuse(scalar.node, refusal{code: inventory.BadWitness, message: "is the address of " + v.ownerOf(v.hosts[i].node) + ", which is to be watched itself",
				accepted: "a host that is no machine of the inventory, such as the subnet's gateway"}, v.hosts[i].node)
		}
	}
}

// sameOnLink refuses racks that share a subnet and say different things about it: the machines
// there have to do the same.
func (v linkChecks) sameOnLink() {
	type said struct {
		rack *rawRack
		link inventory.Link
		node *yaml.Node
	}
	first := map[netip.Prefix]said{}
	for raw := range v.raw.Racks.each() {
		rack, ok := v.inv.Rack(raw.Name.v)
		if !ok {
			continue
		}
		at := cmp.Or(raw.OnLink.node, raw.Name.node, raw.node)
		for _, subnet := range rack.Subnets {
			l := v.inv.LinkSettings(rack, subnet)
			was, there := first[subnet]
			switch {
			case !there:
				first[subnet] = said{raw, l, at}
			case !sameSettings(l, was.link):
				v.refuse(at, refusal{code: inventory.OnLinkDiffers, message: fmt.Sprintf("rack %s says something else about the subnet %s, which it has as well", was.rack.Name.v, subnet),
					value: rack.Name, accepted: "the same onLink in every rack of a subnet, or onLink in the spec alone", suggestion: "onLink: " + was.rack.OnLink.written()}, was.node)
				return
			}
		}
	}
}

// written returns the settings in one line, as they were written.
func (o *rawOnLink) written() string {
	var all []string
	if o.BFD.given() {
		all = append(all, "bfd: "+quoted(o.BFD.v))
	}
	if o.Witness.given() {
		all = append(all, "witness: "+flowList(values(o.Witness)))
	}
	if o.AnnounceEvery.given() {
		all = append(all, "announceEvery: "+ShortDuration(o.AnnounceEvery.v))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// sameSettings reports whether two links differ in their machines alone.
func sameSettings(l inventory.Link, o inventory.Link) bool {
	return l.Interval == o.Interval && l.Multiplier == o.Multiplier && l.AnnounceEvery == o.AnnounceEvery && slices.Equal(l.Witness, o.Witness)
}

// unusedOnLink refuses routers, and warns of attributes, of a pool that no router hears of.
func (v linkChecks) unusedOnLink(advertise *rawAdvertise) {
	if len(advertise.Routers.v) > 0 {
		v.refuse(advertise.Routers.node, refusal{code: inventory.RoutersOnLink, message: "no router is told of addresses that are announced on a link", value: "[" + strings.Join(values(advertise.Routers), ", ") + "]",
			accepted: "no routers, or via: bgp", suggestion: "[]"})
	}
	for _, field := range []struct {
		key   string
		node  *yaml.Node
		given bool
		none  string
	}{
		{"aggregate", advertise.Aggregate.node, advertise.Aggregate.IPv4.given() || advertise.Aggregate.IPv6.given(), "{}"},
		{"localPref", advertise.LocalPref.node, advertise.LocalPref.given(), "null"},
		{"communities", advertise.Communities.node, len(advertise.Communities.v) > 0, "[]"},
		{"prepend", advertise.Prepend.node, advertise.Prepend.given() && advertise.Prepend.v != 0, "0"},
		{"weighted", advertise.Weighted.node, advertise.Weighted.v, "false"},
	} {
		if field.given {
			v.refuse(field.node, refusal{code: inventory.UnusedOnLink, severity: inventory.Warning, message: field.key + " is for BGP alone, and every address of the pool is announced on a link",
				accepted: "no " + field.key + ", or via: bgp", suggestion: field.none})
		}
	}
}

// subnetNode returns the node where a subnet was written first.
func (v linkChecks) subnetNode(p netip.Prefix) *yaml.Node {
	return nodeOf(v.raw.allSubnets(), p)
}
