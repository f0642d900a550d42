package inventory

import (
	"net/netip"
	"slices"
)

// Common returns the part of an inventory that all racks need: everything but the racks and
// the routers in them.
func (inv *Inventory) Common() *Inventory {
	out := *inv
	out.Racks = nil
	out.Routers = slices.DeleteFunc(slices.Clone(inv.Routers), func(r Router) bool { return r.Rack != "" })
	out.Positions = nil
	out.Reindex()
	return &out
}

// Slice returns one rack with its own routers, those of other racks that it peers
// with, and the names of the racks on its subnets. Together with [Inventory.Common]
// it is all that an agent of the rack needs.
func (inv *Inventory) Slice(rack string) *Inventory {
	out := &Inventory{Name: inv.Name}
	own, ok := inv.Rack(rack)
	if ok {
		own.Neighbours = inv.NeighboursOf(own)
		own.Links = inv.sharedLinks(own)
		out.Racks = []Rack{own}
	}
	for _, router := range inv.Routers {
		switch {
		case router.Rack == rack:
			out.Routers = append(out.Routers, router)
		case router.Rack != "" && slices.Contains(own.Peers, router.Name):
			router.Rack = ""
			out.Routers = append(out.Routers, router)
		}
	}
	out.Reindex()
	return out
}

// NeighboursOf are the other racks that share an entry of a rack's subnets, sorted.
func (inv *Inventory) NeighboursOf(of Rack) []string {
	names := slices.Clone(of.Neighbours)
	for _, r := range inv.Racks {
		if r.Name != of.Name && slices.ContainsFunc(r.Subnets, func(s netip.Prefix) bool { return slices.Contains(of.Subnets, s) }) {
			names = append(names, r.Name)
		}
	}
	return SortedOnce(names)
}
