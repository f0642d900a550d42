package document

import (
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
)

// addressChecks are the checks of addresses and subnets.
type addressChecks struct{ *validation }

// addresses refuses addresses that no host can have, that two have, or that lie
// outside the subnets of the rack.
func (v addressChecks) addresses() {
	seen := make(map[netip.Addr]*yaml.Node, 2*v.inv.Size())
	for _, r := range v.raw.allRouters() {
		for _, a := range r.allAddresses() {
			v.host(seen, a)
		}
	}
	for rack := range v.raw.Racks.each() {
		for machine := range rack.Machines.each() {
			if machine.State.v == inventory.StateRetired {
				continue
			}
			for _, a := range machine.Addresses.v {
				v.host(seen, a)
				v.onSubnet(rack, a)
			}
			for _, a := range machine.ExternalAddresses.v {
				v.host(seen, a)
			}
		}
	}
}

// host checks one address, wherever it stands.
func (v addressChecks) host(seen map[netip.Addr]*yaml.Node, scalar scalar[netip.Addr]) {
	if scalar.v.Zone() != "" {
		return // of one link alone; other links may have the same
	}
	if what := special(scalar.v); what != "" {
		v.refuse(scalar.node, refusal{code: inventory.NotUnicast, message: "is " + what + ", which no machine or router can be reached at", accepted: "a unicast address"})
		return
	}
	if first, taken := seen[scalar.v]; taken {
		v.refuse(scalar.node, refusal{code: inventory.AddressTwice, message: "is the address of " + v.ownerOf(first) + " too", accepted: "an address that is used once",
			suggestion: v.nextAddress(scalar.v), example: true}, first)
		return
	}
	seen[scalar.v] = scalar.node
}

// onSubnet refuses an address that none of the rack's subnets of its family has.
func (v addressChecks) onSubnet(rack *rawRack, scalar scalar[netip.Addr]) {
	var same []string
	for _, subnet := range rack.Subnets.v {
		if subnet.v.Addr().Is4() != scalar.v.Is4() {
			continue
		}
		same = append(same, subnet.v.String())
		if subnet.v.Contains(scalar.v) {
			v.notItsEnds(subnet, scalar)
			return
		}
	}
	if len(same) == 0 {
		return
	}
	suggestion := transplanted(scalar.v, inventory.RangeOf(netip.MustParsePrefix(same[0])))
	if networks := v.networksOf(rack); covered(networks, scalar.v) {
		suggestion = subnetsLine(networks)
	}
	v.refuse(scalar.node, refusal{code: inventory.OutsideSubnets, message: "is outside the subnets of its rack", accepted: v.elsewhere(scalar.v, same), suggestion: suggestion, example: true}, rack.Subnets.node)
}

// transplanted is the address of a range that ends as a does; "" where it is no prefix.
func transplanted(a netip.Addr, into inventory.Range) string {
	prefix, ok := into.AsPrefix()
	if !ok || prefix.Addr().BitLen() != a.BitLen() {
		return ""
	}
	network, host := prefix.Addr().AsSlice(), a.AsSlice()
	for i := range host {
		keep := byte(0xff)
		if bits := prefix.Bits() - 8*i; bits >= 8 {
			keep = 0
		} else if bits > 0 {
			keep = 0xff >> bits
		}
		host[i] = network[i] | host[i]&keep
	}
	out, _ := netip.AddrFromSlice(host)
	return out.String()
}

// elsewhere describes the addresses or places that would do for a machine whose address is in none of the rack's subnets.
func (v addressChecks) elsewhere(a netip.Addr, subnets []string) string {
	accepted := "an address in " + strings.Join(subnets, " or ")
	if rack := v.rackWith(a); rack != "" {
		accepted += ", the machine in " + rack
	}
	return accepted + ", or a subnet of the rack that holds it"
}

// notItsEnds refuses the network and broadcast addresses of an IPv4 subnet.
func (v addressChecks) notItsEnds(scalar scalar[netip.Prefix], addr scalar[netip.Addr]) {
	if !addr.v.Is4() || scalar.v.Bits() > 30 {
		return
	}
	last := netipx.PrefixLastIP(scalar.v)
	switch addr.v {
	case scalar.v.Addr():
		v.refuse(addr.node, refusal{code: inventory.NetworkAddress, message: "is the network address of " + scalar.v.String(), accepted: "an address between the first and the last",
			suggestion: addr.v.Next().String()}, scalar.node)
	case last:
		v.refuse(addr.node, refusal{code: inventory.NetworkAddress, message: "is the broadcast address of " + scalar.v.String(), accepted: "an address between the first and the last",
			suggestion: addr.v.Prev().String()}, scalar.node)
	}
}

// subnets refuses subnets that overlap without being the same. The same one
// may be in several racks: their machines then reach each other directly.
func (v addressChecks) subnets() {
	overlaps(spans(v.raw.allSubnets()), func(a, b span) {
		if a.Range != b.Range {
			v.refuse(b.node, refusal{code: inventory.SubnetsOverlap, message: "overlaps the subnet " + a.String(), accepted: "subnets that are the same or have nothing in common",
				suggestion: a.String()}, a.node)
		}
	})
}

// span is a range of addresses and the place where it was written.
type span struct {
	inventory.Range
	node *yaml.Node
}

// overlaps yields pairs of spans that share an address, the one that was
// written earlier first. Every span that overlaps any is in at least one pair.
func overlaps(all []span, yield func(earlier, later span)) {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return all[i].Range.Compare(all[j].Range) })
	widest := -1
	for _, i := range order {
		if widest >= 0 && all[widest].Overlaps(all[i].Range) {
			yield(all[min(i, widest)], all[max(i, widest)])
		}
		if widest < 0 || all[widest].Last.Less(all[i].Last) {
			widest = i
		}
	}
}

func spans(all []scalar[netip.Prefix]) []span {
	return converted(all, func(p scalar[netip.Prefix]) span { return span{inventory.RangeOf(p.v), p.node} })
}
