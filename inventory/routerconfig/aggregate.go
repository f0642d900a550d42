package routerconfig

import (
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// aggregate is the block of a rack, which the router tells its other neighbours in
// the place of a pod CIDR for each machine. The router drops what it has for
// addresses of the block that no machine holds: without that, such a packet would
// follow a default route to the neighbour that sent it, and come back.
type aggregate struct {
	rack  string
	block netip.Prefix
	// alone: no other router hears the machines' pod CIDRs, so nothing is lost if
	// neighbours hear of the block alone. Of two routers each may lack a machine that
	// the other has, and would draw packets for it that it has to drop.
	alone bool
}

// addAggregates adds the blocks of a rack whose machines have these sessions with
// the router, or notes why there are none.
func (s *side) addAggregates(inv *inventory.Inventory, rack inventory.Rack, groups []*group) {
	if inv.PodNetwork.Mode != inventory.ModeFabric {
		return
	}
	for _, block := range rack.PodCIDRs {
		v4 := block.Addr().Is4()
		switch {
		case !slices.ContainsFunc(groups, func(g *group) bool { return g.terms.PodCIDRs && g.carries(v4) }), holdsWhole(inv, rack, block):
		case rack.Carved:
			s.carved = append(s.carved, rack.Name)
		default:
			s.aggregates = append(s.aggregates, aggregate{rack: rack.Name, block: block, alone: s.alone(inv, rack, v4)})
		}
	}
}

// holdsWhole reports whether one machine holds, or will, all of the rack's block:
// what it announces is one prefix already, and a route of our own to the same block
// would be taken in its place.
func holdsWhole(inv *inventory.Inventory, rack inventory.Rack, block netip.Prefix) bool {
	return inv.PodNetwork.NodePrefix.For(block.Addr()) <= block.Bits() ||
		slices.ContainsFunc(rack.Machines, func(m inventory.Machine) bool {
			return slices.ContainsFunc(m.PodCIDRs, func(p netip.Prefix) bool { return p.Overlaps(block) && p.Bits() <= block.Bits() })
		})
}

// alone reports whether no other router hears pod CIDRs of the family from the rack.
func (s *side) alone(inv *inventory.Inventory, rack inventory.Rack, v4 bool) bool {
	return !slices.ContainsFunc(rack.Machines, func(m inventory.Machine) bool {
		return m.State != inventory.StateRetired && slices.ContainsFunc(inv.Sessions(m), func(o inventory.Session) bool {
			return o.Router != s.router.Name && o.PodCIDRs && (v4 && o.Families.IPv4 || !v4 && o.Families.IPv6)
		})
	})
}

// aggregatesOf are the aggregates of one family.
func (s *side) aggregatesOf(v4 bool) []aggregate {
	return slices.DeleteFunc(slices.Clone(s.aggregates), func(a aggregate) bool { return a.block.Addr().Is4() != v4 })
}

// summed are the blocks of which neighbours need hear no part.
func (s *side) summed(v4 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range s.aggregatesOf(v4) {
		if a.alone {
			out = append(out, a.block)
		}
	}
	return out
}

// warnOfAggregates notes what a person must know of them.
func (s *side) warnOfAggregates() {
	var shared []string
	for _, a := range s.aggregates {
		if !a.alone {
			shared = append(shared, a.rack)
		}
	}
	if racks := slices.Compact(shared); len(racks) > 0 {
		s.note("Other routers hear the pod CIDRs of %s, too, and may have a machine that this one lacks: the machines' pod CIDRs go out beside the rack's block.", strings.Join(racks, ", "))
	}
	if racks := slices.Compact(s.carved); len(racks) > 0 {
		s.note("No block is told for %s: it was carved, and what is carved here may differ from what is in force in a cluster. Write the rack's podCIDRs into the inventory.", strings.Join(racks, ", "))
	}
}

// withoutMachines notes, for languages that cannot tell, that the block is told
// whether or not a machine of the rack is there.
func (s *side) withoutMachines() {
	s.note("A rack's block is told while none of its machines is there, too: packets for it are dropped here.")
}
