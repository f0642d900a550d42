package document

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
)

// podChecks are the checks of the pod network and the blocks in it.
type podChecks struct{ *validation }

// podNetwork checks the prefixes that pod CIDRs are carved from.
func (v podChecks) podNetwork() {
	raw := &v.raw.PodNetwork
	for i, scalar := range raw.CIDRs.v {
		for _, before := range raw.CIDRs.v[:i] {
			if before.v.Addr().Is4() == scalar.v.Addr().Is4() {
				v.refuse(scalar.node, refusal{code: inventory.CIDRsOfOneFamily, message: "is of the same family as another", accepted: "one prefix of each family"}, before.node)
			}
		}
		v.prefixLengths(scalar)
		v.podsAndOthers(scalar)
		v.podsCarried(scalar)
	}
	v.podFamilies()
	v.podsApart()
	v.vxlan()
}

// bfdPorts are the ports at which the agent receives BFD (RFC 5881, RFC 5883).
var bfdPorts = []int{3784, 4784}

// vxlan refuses a port that the agent has itself, and warns of settings of a tunnel that
// there is not.
func (v podChecks) vxlan() {
	raw := &v.raw.PodNetwork.VXLAN
	if slices.Contains(bfdPorts, raw.Port.v) {
		v.refuse(raw.Port.node, refusal{code: inventory.VXLANPortTaken, message: "is a port of BFD, which the agent listens at", accepted: "a UDP port that no program of the machines has", suggestion: fmt.Sprint(inventory.DefaultVXLAN.Port)})
	}
	if mode := v.inv.PodNetwork.Mode; raw.node != nil && mode != inventory.ModeOverlay && mode != inventory.ModeNone {
		v.refuse(raw.node, refusal{code: inventory.VXLANUnused, severity: inventory.Warning, message: fmt.Sprintf("means nothing in the mode %s, which has no tunnel", mode), accepted: "the mode overlay, or no vxlan"}, v.raw.PodNetwork.Mode.node)
	}
}

// prefixLengths checks that machines fit into racks, and racks into the network.
func (v podChecks) prefixLengths(scalar scalar[netip.Prefix]) {
	addr, whole := scalar.v.Addr(), scalar.v.Bits()
	rack, node := v.inv.PodNetwork.RackPrefix.For(addr), v.inv.PodNetwork.NodePrefix.For(addr)
	rackNode, nodeNode := lengthNode(&v.raw.PodNetwork.RackPrefix, addr), lengthNode(&v.raw.PodNetwork.NodePrefix, addr)
	if rackNode != nil && rack < whole {
		v.refuse(rackNode, refusal{code: inventory.BadRackPrefix, message: "is larger than the whole network " + scalar.v.String(), accepted: fmt.Sprintf("%d to %d", whole, node), suggestion: fmt.Sprint((whole + max(node, whole) + 1) / 2)}, scalar.node)
		return
	}
	if nodeNode != nil && node < max(rack, whole) {
		r := refusal{code: inventory.BadNodePrefix, message: fmt.Sprintf("is larger than the block of a rack, a /%d", rack), accepted: fmt.Sprintf("%d to %d", rack, addr.BitLen()), suggestion: fmt.Sprint(min(rack+4, addr.BitLen()))}
		if rackNode == nil {
			r.message = "is larger than the whole network " + scalar.v.String()
			r.accepted = fmt.Sprintf("%d to %d", whole, addr.BitLen())
		}
		v.refuse(nodeNode, r, scalar.node)
	}
}

// podsAndOthers refuses a pod network that has addresses of machines, routers or their subnets.
func (v podChecks) podsAndOthers(scalar scalar[netip.Prefix]) {
	for _, s := range v.raw.allSubnets() {
		if s.v.Overlaps(scalar.v) {
			v.refuse(scalar.node, refusal{code: inventory.PodsOnSubnet, message: "overlaps the subnet " + s.v.String(), accepted: "a prefix for pods alone", suggestion: v.freeNetwork(scalar.v)}, s.node)
			return
		}
	}
	for _, h := range v.hosts {
		if scalar.v.Contains(h.v) {
			v.refuse(scalar.node, refusal{code: inventory.PodsOnSubnet, message: "holds " + h.v.String() + ", the address of a machine or router", accepted: "a prefix for pods alone", suggestion: v.freeNetwork(scalar.v)}, h.node)
			return
		}
	}
}

// freeNetwork is a usual pod network of the family, or one of the next, that no subnet or address here overlaps.
func (v podChecks) freeNetwork(like netip.Prefix) string {
	usual := netip.MustParsePrefix("10.244.0.0/16")
	if like.Addr().Is6() {
		usual = netip.MustParsePrefix("fd00:244::/48")
	}
	const tries = 12 // to 10.255.0.0/16
	for range tries {
		taken := slices.ContainsFunc(v.hosts, func(h scalar[netip.Addr]) bool { return usual.Contains(h.v) }) ||
			slices.ContainsFunc(v.raw.allSubnets(), func(s scalar[netip.Prefix]) bool { return s.v.Overlaps(usual) })
		if !taken {
			return usual.String()
		}
		usual = netip.PrefixFrom(netipx.PrefixLastIP(usual).Next(), usual.Bits())
	}
	return ""
}

// podsCarried warns of a family that no session can carry, where routers are to carry pods.
func (v podChecks) podsCarried(scalar scalar[netip.Prefix]) {
	if v.inv.PodNetwork.Mode != inventory.ModeFabric || v.inv.Size() == 0 {
		return
	}
	all, _ := v.carried().of(v.inv, inventory.Advertise{})
	if scalar.v.Addr().Is4() && !all.IPv4 || scalar.v.Addr().Is6() && !all.IPv6 {
		v.refuse(scalar.node, refusal{code: inventory.FamilyUncarried, severity: inventory.Warning, message: "the mode is fabric, and no session can carry this family", accepted: "routers, and machines with an address of that family"})
	}
}

// podFamilies warns of machines whose pods of a family cannot be reached.
func (v podChecks) podFamilies() {
	if v.inv.PodNetwork.Mode == inventory.ModeNone {
		return
	}
	for _, machine := range v.raw.allMachines() {
		if len(machine.Addresses.v) == 0 {
			continue
		}
		addrs := values(machine.Addresses)
		for _, c := range v.inv.PodNetwork.CIDRs {
			if !inventory.FirstOf(addrs, c.Addr().Is4()).IsValid() {
				v.refuse(machine.Addresses.node, refusal{code: inventory.FamilyUnreachable, severity: inventory.Warning, message: "the machine has no address of the family of " + c.String() + ", so its pods of that family cannot be reached",
					accepted: "an address of each family of podNetwork.cidrs"})
			}
		}
	}
}

// podsApart warns of the first two machines whose pods direct leads no way between.
func (v podChecks) podsApart() {
	if v.inv.PodNetwork.Mode != inventory.ModeDirect {
		return
	}
	var places []inventory.Machine // one of each
	seen := map[string]bool{}
	for machine := range v.inv.Machines() {
		at := fmt.Sprint(machine.Rack, v.inv.Subnet(machine))
		if machine.State == inventory.StateRetired || len(machine.Addresses) == 0 || seen[at] {
			continue
		}
		if i := slices.IndexFunc(places, func(p inventory.Machine) bool { return !v.inv.SameSubnet(p, machine) }); i >= 0 {
			v.refuse(v.raw.PodNetwork.Mode.node, refusal{code: inventory.PodsApart, severity: inventory.Warning,
				message:  fmt.Sprintf("leads only within a subnet, and %s of rack %s and %s of rack %s share none", places[i].Name, places[i].Rack, machine.Name, machine.Rack),
				accepted: "fabric or overlay, or a subnet that both racks name", suggestion: string(inventory.ModeOverlay)})
			return
		}
		seen[at] = true
		places = append(places, machine)
	}
}

// podCIDRs checks the blocks that were given by hand.
func (v podChecks) podCIDRs() {
	var racks, machines []span
	for r := range v.raw.Racks.each() {
		v.byHand(r.PodCIDRs)
		racks = append(racks, spans(r.PodCIDRs.v)...)
		for m := range r.Machines.each() {
			v.byHand(m.PodCIDRs)
			v.inRack(r, m)
			machines = append(machines, spans(m.PodCIDRs.v)...)
		}
	}
	v.apartBlocks(racks)
	v.apartBlocks(machines)
}

// apartBlocks refuses blocks that overlap.
func (v podChecks) apartBlocks(all []span) {
	overlaps(all, func(a, b span) {
		r := refusal{code: inventory.PodCIDRsOverlap, message: "overlaps " + a.String(), accepted: "blocks that have nothing in common"}
		if p, ok := b.AsPrefix(); ok {
			r.suggestion = v.freeBlock(all, p)
		}
		v.refuse(b.node, r, a.node)
	})
}

// freeBlock is the first block as large as a prefix that none of the spans has.
func (v podChecks) freeBlock(all []span, prefix netip.Prefix) string {
	whole, ok := inventory.OfFamily(v.inv.PodNetwork.CIDRs, prefix)
	var taken []netip.Prefix
	for _, s := range all {
		if q, ok := s.AsPrefix(); ok {
			taken = append(taken, q)
		}
	}
	if free, found := inventory.FreeBlock(whole, prefix.Bits(), taken); ok && found {
		return free.String()
	}
	return ""
}

// byHand checks one list: one block for each family of the network, and in it.
func (v podChecks) byHand(prefixes list[scalar[netip.Prefix]]) {
	if len(prefixes.v) == 0 {
		return
	}
	if v.raw.PodNetwork.node == nil {
		v.refuse(prefixes.node, refusal{code: inventory.NoPodNetwork, severity: inventory.Warning, message: "means nothing without a podNetwork", accepted: "a section spec.podNetwork", suggestion: "podNetwork: {mode: direct}"})
		return
	}
	cidrs := v.inv.PodNetwork.CIDRs
	if len(cidrs) == 0 {
		return
	}
	for _, p := range prefixes.v {
		if whole, ok := inventory.OfFamily(cidrs, p.v); ok && !inventory.Covers(whole, p.v) {
			v.refuse(p.node, refusal{code: inventory.PodCIDROutside, message: "is outside the pod network", accepted: "a block in " + whole.String(), suggestion: moved(whole, p.v)}, v.raw.PodNetwork.CIDRs.node)
		}
	}
	v.eachFamily(prefixes, cidrs)
}

// eachFamily refuses a list that leaves a family out, or has one twice or for nothing.
func (v podChecks) eachFamily(prefixes list[scalar[netip.Prefix]], cidrs []netip.Prefix) {
	have := map[bool]*yaml.Node{}
	for _, scalar := range prefixes.v {
		is4 := scalar.v.Addr().Is4()
		_, wanted := inventory.OfFamily(cidrs, scalar.v)
		if have[is4] != nil || !wanted {
			v.refuse(scalar.node, refusal{code: inventory.PodFamilies, message: "is one too many of its family", accepted: "one block for each family of podNetwork.cidrs"}, v.raw.PodNetwork.CIDRs.node)
		}
		have[is4] = scalar.node
	}
	for _, c := range cidrs {
		if have[c.Addr().Is4()] == nil && len(prefixes.v) == len(prefixes.node.Content) {
			v.refuse(prefixes.node, refusal{code: inventory.PodFamilies, message: "has no block of the family of " + c.String(), accepted: "one block for each family of podNetwork.cidrs",
				suggestion: flowList(append(values(prefixes), netip.MustParsePrefix(moved(c, netip.PrefixFrom(c.Addr(), v.inv.PodNetwork.RackPrefix.For(c.Addr()))))))}, v.raw.PodNetwork.CIDRs.node)
		}
	}
}

// moved is a block of that length at the start of the network.
func moved(whole, p netip.Prefix) string {
	if p.Bits() < whole.Bits() {
		return whole.String()
	}
	return netip.PrefixFrom(whole.Addr(), p.Bits()).String()
}

// inRack warns of a machine's block outside that of its rack: routers that
// carry one aggregate a rack then carry one more.
func (v podChecks) inRack(r *rawRack, m *rawMachine) {
	for _, p := range m.PodCIDRs.v {
		block, ok := inventory.OfFamily(values(r.PodCIDRs), p.v)
		if ok && !inventory.Covers(block, p.v) {
			v.refuse(p.node, refusal{code: inventory.PodCIDROutside, severity: inventory.Warning, message: "is outside the block of its rack", accepted: "a block in " + strings.Join(stringsOf(values(r.PodCIDRs)), " or "), suggestion: moved(block, p.v)}, r.PodCIDRs.node)
		}
	}
}
