package inventory

import (
	"bytes"
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

// Slice returns one rack with its own routers, and those of other racks that it
// peers with. Together with [Inventory.Common] it is all that an agent of the
// rack needs.
func (inv *Inventory) Slice(rack string) *Inventory {
	out := &Inventory{Name: inv.Name}
	r, ok := inv.Rack(rack)
	if ok {
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

// Equal reports whether two inventories say the same.
func (inv *Inventory) Equal(other *Inventory) bool {
	if inv == nil || other == nil {
		return inv == other
	}
	return bytes.Equal(inv.FormatAccepted(), other.FormatAccepted())
}
