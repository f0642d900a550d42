package inventory

import (
	"cmp"
	"slices"
)

// Gather puts an inventory together of parts that cannot be read as one: what all racks share, which may be nil,
// and slices, the latest first. A rack is as the first part says that has it, with the machines that later
// parts alone have, unless they are retired there: no machine is left out before it is. The result is what can be
// known of an inventory in force, and need not be valid.
func Gather(common *Inventory, parts ...*Inventory) *Inventory {
	out := &Inventory{}
	if common != nil {
		*out = *common
	}
	out.Racks, out.Routers, out.Positions = nil, slices.Clone(out.Routers), nil
	names, ids := map[string]bool{}, map[string]bool{}
	for _, part := range parts {
		out.Name = cmp.Or(out.Name, part.Name)
		out.Routers = append(out.Routers, part.Routers...)
		for _, rack := range part.Racks {
			at := slices.IndexFunc(out.Racks, func(o Rack) bool { return o.Name == rack.Name })
			machines := slices.DeleteFunc(slices.Clone(rack.Machines), func(m Machine) bool {
				return names[m.Name] || ids[m.ID] || at >= 0 && m.State == StateRetired
			})
			for _, m := range machines {
				names[m.Name], ids[m.ID] = true, true
			}
			if at < 0 {
				at, out.Racks = len(out.Racks), append(out.Racks, rack)
				out.Racks[at].Machines = nil
			}
			out.Racks[at].Machines = append(out.Racks[at].Machines, machines...)
		}
	}
	out.Routers = DistinctRouters(out.Routers)
	out.AdoptRouters()
	out.Normalize()
	out.ResolveNeighbours()
	return out
}
