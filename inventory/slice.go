package inventory

import (
	"bytes"
	"net/netip"
	"slices"
)

// Common returns what all racks need: everything but the racks and the routers
// in them.
func (inv *Inventory) Common() *Inventory {
	out := *inv
	out.Racks = nil
	out.Routers = slices.DeleteFunc(slices.Clone(inv.Routers), func(r Router) bool { return r.Rack != "" })
	out.positions = nil
	out.reindex()
	return &out
}

// Slice returns one rack with its own routers, those of other racks that it peers
// with, and the names of the racks on its subnets. Together with [Inventory.Common]
// it is all that an agent of the rack needs.
func (inv *Inventory) Slice(rack string) *Inventory {
	out := &Inventory{Name: inv.Name}
	r, ok := inv.Rack(rack)
	if ok {
		r.Neighbours = inv.NeighboursOf(r)
		r.Links = inv.sharedLinks(r)
		out.Racks = []Rack{r}
	}
	for _, router := range inv.Routers {
		switch {
		case router.Rack == rack:
			out.Routers = append(out.Routers, router)
		case router.Rack != "" && slices.Contains(r.Peers, router.Name):
			router.Rack = ""
			out.Routers = append(out.Routers, router)
		}
	}
	out.reindex()
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
	slices.Sort(names)
	return slices.Compact(names)
}

// meetNeighbours forgets the names of neighbours that are here themselves, as they
// are once all slices are put together: their subnets say the same. Links of which all racks are
// here are worked out from these.
func (inv *Inventory) meetNeighbours() {
	for i := range inv.Racks {
		r := &inv.Racks[i]
		r.Neighbours = slices.DeleteFunc(r.Neighbours, func(name string) bool {
			_, here := inv.Rack(name)
			return here
		})
		if len(r.Neighbours) == 0 {
			r.Neighbours, r.Links = nil, nil
		}
	}
}

// Equal reports whether two inventories say the same.
func (inv *Inventory) Equal(other *Inventory) bool {
	if inv == nil || other == nil {
		return inv == other
	}
	return bytes.Equal(inv.FormatAccepted(), other.FormatAccepted())
}
