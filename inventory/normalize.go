package inventory

import (
	"cmp"
	"slices"
)

// DistinctRouters drops routers that the slice of a rack repeats because the rack
// peers with them: the slice of the rack that they stand in says where that is.
func DistinctRouters(routers []Router) []Router {
	at := map[string]int{}
	var out []Router
	for _, router := range routers {
		i, known := at[router.Name]
		switch {
		case !known:
			at[router.Name] = len(out)
			out = append(out, router)
		case out[i].Rack == "":
			out[i] = router
		}
	}
	return out
}

// Normalize sorts what has names, fills in what depends on the whole, and makes
// the inventory quick to ask.
func (inv *Inventory) Normalize() {
	sortByName(inv.BFDProfiles, func(p BFDProfile) string { return p.Name })
	sortByName(inv.Routers, func(r Router) string { return r.Name })
	sortByName(inv.Pools, func(p Pool) string { return p.Name })
	sortByName(inv.Storage, func(s Storage) string { return s.Name })
	sortByName(inv.Racks, func(r Rack) string { return r.Name })
	for i := range inv.Racks {
		r := &inv.Racks[i]
		if r.ASN == 0 {
			r.ASN = inv.BGP.ASN
		}
		if r.Peers == nil {
			r.Peers = inv.DefaultPeers(r.Name)
		}
	}
	inv.Reindex()
}

// DefaultPeers are the rack's own routers, else all routers of the spec.
func (inv *Inventory) DefaultPeers(rack string) []string {
	own, all := []string{}, []string{}
	for _, r := range inv.Routers {
		switch r.Rack {
		case rack:
			own = append(own, r.Name)
		case "":
			all = append(all, r.Name)
		}
	}
	if len(own) > 0 {
		return own
	}
	return all
}

func sortByName[T any](s []T, name func(T) string) {
	slices.SortStableFunc(s, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}

// AdoptRouters has routers be of the spec whose rack is gone, though a rack that is held has sessions with
// them: no slice would have them.
func (inv *Inventory) AdoptRouters() {
	for i := range inv.Routers {
		r := &inv.Routers[i]
		if !slices.ContainsFunc(inv.Racks, func(rack Rack) bool { return rack.Name == r.Rack }) {
			r.Rack = ""
		}
	}
}

// ResolveNeighbours forgets the names of neighbours that are here themselves, as they
// are once all slices are put together: their subnets say the same. Links of which all racks are
// here are worked out from these.
func (inv *Inventory) ResolveNeighbours() {
	for i := range inv.Racks {
		rack := &inv.Racks[i]
		rack.Neighbours = slices.DeleteFunc(rack.Neighbours, func(name string) bool {
			_, here := inv.Rack(name)
			return here
		})
		if len(rack.Neighbours) == 0 {
			rack.Neighbours, rack.Links = nil, nil
		}
	}
}

// PlanUnreachable has a held machine that has no address left be planned, since in every other state a
// machine has one: what is stored of it could not be read again. Nobody reaches it any more. The pod CIDRs
// stay its own, for its Node may live, and so does the taint that the Node has in maintenance.
func (m *Machine) PlanUnreachable() {
	if !m.Held || len(m.Addresses) > 0 || m.State == StatePlanned || m.State == StateRetired {
		return
	}
	if m.State == StateMaintenance {
		m.Taints = append(slices.Clone(m.Taints), TaintMaintenance)
		slices.SortFunc(m.Taints, Taint.Compare)
	}
	m.OwnState, m.State = StatePlanned, StatePlanned
}
