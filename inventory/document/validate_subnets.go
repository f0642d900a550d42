package document

import (
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// subnetChecks are the checks of racks that name no subnet.
type subnetChecks struct{ *validation }

// notOnLink warns of machines in a subnet where others answer for VIPs, whose own rack does not name it.
func (v subnetChecks) notOnLink() {
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
func (v subnetChecks) besideMachines() {
	for raw := range v.raw.Pools.each() {
		if p, _ := v.inv.Pool(raw.Name.v); p.Via == "" {
			for _, r := range raw.Addresses.v {
				v.besideMachinesOf(p, r)
			}
		}
	}
}

func (v subnetChecks) besideMachinesOf(p inventory.Pool, scalar scalar[inventory.Range]) {
	for _, rack := range v.bare {
		i := slices.IndexFunc(rack.networks, func(n netip.Prefix) bool {
			return scalar.v.Overlaps(inventory.RangeOf(n)) && givesOn(p, scalar.v, n) && !slices.Contains(p.Links, n)
		})
		if known, _ := v.inv.Rack(rack.Name.v); i < 0 || len(known.Peers) == 0 {
			continue
		}
		v.refuse(scalar.node, refusal{code: inventory.PoolBesideMachines, severity: inventory.Warning,
			message:  fmt.Sprintf("is most likely in the network of machines of rack %s, %s, where hosts look for it on the wire, and the rack has routers and no subnets", rack.Name.v, rack.networks[i]),
			accepted: "via: bgp in the pool's advertise to announce it to the routers alone; or subnets of the rack, and via: link to answer there, too", suggestion: "advertise: {via: bgp}"}, rack.node)
		return
	}
}
