package document

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// networkOf is the network that an address of a machine is most likely in: one of the subnets that holds it, or else one as large as
// most are, if no subnet overlaps that. It reports whether there is one.
func networkOf(a netip.Addr, subnets []netip.Prefix) (netip.Prefix, bool) {
	if i := slices.IndexFunc(subnets, func(s netip.Prefix) bool { return s.Contains(a) }); i >= 0 {
		return subnets[i], true
	}
	bits := 24
	if a.Is6() {
		bits = 64
	}
	usual := netip.PrefixFrom(a, bits).Masked()
	return usual, special(a) == "" && !slices.ContainsFunc(subnets, usual.Overlaps)
}

// covered reports whether one of the networks has the address.
func covered(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// networksOf are the rack's subnets, and the networks of addresses of its machines that none of them has.
func (v *validation) networksOf(rack *rawRack) []netip.Prefix {
	out, all := values(rack.Subnets), values(list[scalar[netip.Prefix]]{v: v.raw.allSubnets()})
	for m := range rack.Machines.each() {
		for _, a := range m.Addresses.v {
			if n, ok := networkOf(a.v, all); ok && !covered(out, a.v) {
				out = append(out, n)
			}
		}
	}
	return out
}

// bareRack is a rack that names no subnet, and the networks that its machines are in.
type bareRack struct {
	*rawRack
	networks []netip.Prefix
}

// bareRacks are the racks that name no subnet.
func (v *validation) bareRacks() (out []bareRack) {
	for r := range v.raw.Racks.each() {
		if len(r.Subnets.v) == 0 {
			out = append(out, bareRack{r, v.networksOf(r)})
		}
	}
	return out
}

// subnetsLine is what to write into a rack so that the networks are its subnets.
func subnetsLine(networks []netip.Prefix) string { return "subnets: " + flowList(networks) }

// notOnLink warns of machines in a subnet where others answer for VIPs, whose own rack does not name it.
func (v *validation) notOnLink() {
	for _, rack := range v.bare {
		for m := range rack.Machines.each() {
			for _, a := range m.Addresses.v {
				i := slices.IndexFunc(v.inv.Pools, func(p inventory.Pool) bool { return covered(p.Links, a.v) })
				if i >= 0 && m.State.v != inventory.StateRetired {
					v.refuse(a.node, refusal{code: inventory.OutsideSubnets, severity: inventory.Warning, message: "is in the subnet of " + v.rackWith(a.v) + " where VIPs are answered for, and its own rack has no subnets, so the machine answers for none",
						accepted: "that subnet in its own rack, too", suggestion: subnetsLine(rack.networks)})
				}
			}
		}
	}
}

// besideMachines warns of ranges in the network of machines that have routers and name no subnet: whether other hosts there find
// their VIPs is not known.
func (v *validation) besideMachines() {
	for raw := range v.raw.Pools.each() {
		if p, _ := v.inv.Pool(raw.Name.v); p.Via == "" {
			for _, r := range raw.Addresses.v {
				v.besideMachinesOf(p, r)
			}
		}
	}
}

func (v *validation) besideMachinesOf(p inventory.Pool, r scalar[inventory.Range]) {
	for _, rack := range v.bare {
		i := slices.IndexFunc(rack.networks, func(n netip.Prefix) bool {
			return r.v.Overlaps(inventory.RangeOf(n)) && givesOn(p, r.v, n) && !slices.Contains(p.Links, n)
		})
		if known, _ := v.inv.Rack(rack.Name.v); i < 0 || len(known.Peers) == 0 {
			continue
		}
		v.refuse(r.node, refusal{code: inventory.PoolBesideMachines, severity: inventory.Warning,
			message:  fmt.Sprintf("is most likely in the network of machines of rack %s, %s, where hosts look for it on the wire, and the rack has routers and no subnets", rack.Name.v, rack.networks[i]),
			accepted: "via: bgp in the pool's advertise to announce it to the routers alone; or subnets of the rack, and via: link to answer there, too", suggestion: "advertise: {via: bgp}"}, rack.node)
		return
	}
}

// wayOut is what to write into a rack whose machines have nobody to announce VIPs to: the network that they are in, where that
// is the pools', or else a router.
func (v *validation) wayOut(rack *rawRack) string {
	networks := v.networksOf(rack)
	for _, p := range v.inv.Pools {
		if len(rack.Subnets.v) == 0 && slices.ContainsFunc(networks, p.Overlaps) {
			return subnetsLine(networks)
		}
	}
	if len(networks) == 0 {
		return ""
	}
	gateway := networks[0].Masked().Addr().Next() // the address that most have
	if _, taken := v.hostAt(gateway); taken {
		gateway, _ = netip.ParseAddr(v.nextAddress(gateway))
	}
	own := cmp.Or(rack.ASN.v, v.inv.BGP.ASN, 64512)
	name := "router"
	if slices.Contains(v.routerNames(), name) {
		name = nextName(name, func(s string) bool { return slices.Contains(v.routerNames(), s) })
	}
	lines := []string{fmt.Sprintf("routers: [{name: %s, address: %s, asn: %d}]", name, quoted(gateway.String()), own+1)}
	if rack.ASN.v == 0 && v.inv.BGP.ASN == 0 {
		lines = append([]string{fmt.Sprintf("asn: %d", own)}, lines...)
	}
	return strings.Join(lines, "\n")
}

// networkFor says where to write the subnets that a pool is to be announced on which are none yet; "" where no machine is near it.
func (v *validation) networkFor(p inventory.Pool) string {
	for _, rack := range v.bare {
		if slices.ContainsFunc(rack.networks, p.Overlaps) {
			return fmt.Sprintf("spec.racks[%s].%s", rack.Name.v, subnetsLine(rack.networks))
		}
	}
	return ""
}
