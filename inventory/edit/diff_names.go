package edit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// Rename is a rack, pool, community or router that has another name, and is the same in all that it is known by. What is told
// of it besides goes by the new name. Machines tell of their names themselves, and so do sessions that stay up.
type Rename struct{ What, Was, Name string }

// sameness is by what a thing is known to be the same under another name.
var sameness = map[string]string{"rack": "the same machines", "pool": "the same addresses", "community": "the same value", "router": "the same addresses"}

// String shows the name before and the name now.
func (r Rename) String() string {
	return fmt.Sprintf("%s %s is called %s now: %s", r.What, r.Was, r.Name, sameness[r.What])
}

// newNames are the names that things have in one inventory, by the names that they have in another.
type newNames struct{ racks, pools, communities, routers map[string]string }

// namesIn finds what is under another name in after. What two things of an inventory have in common tells neither.
func namesIn(inv *inventory.Inventory, after *inventory.Inventory) newNames {
	return newNames{
		racks:       renamed(rackContents(inv, after), rackContents(after, after)),
		pools:       renamed(poolContents(inv), poolContents(after)),
		communities: renamed(communityContents(inv), communityContents(after)),
		routers:     renamed(routerContents(inv), routerContents(after)),
	}
}

// renamed pairs names of the same content. A name that something else had, and has kept, was not given away.
func renamed(before, after map[string]string) map[string]string {
	was, is := byContent(before), byContent(after)
	out := map[string]string{}
	for content, old := range was {
		if now := is[content]; old != "" && now != "" && old != now {
			out[old] = now
		}
	}
	taken := func(old, now string) bool {
		_, had := before[now]
		_, gone := out[now]
		return had && !gone
	}
	for again := true; again; {
		size := len(out)
		maps.DeleteFunc(out, taken)
		again = len(out) < size
	}
	return out
}

// byContent are the names of contents that one thing alone has.
func byContent(all map[string]string) map[string]string {
	out := make(map[string]string, len(all))
	for name, content := range all {
		if _, twice := out[content]; twice || content == "" {
			name = ""
		}
		out[content] = name
	}
	return out
}

// rackContents are the machines of each rack, by the names that they have in another inventory.
func rackContents(inv, names *inventory.Inventory) map[string]string {
	out := make(map[string]string, len(inv.Racks))
	for _, rack := range inv.Racks {
		var machines []string
		for _, m := range rack.Machines {
			if now, ok := names.Same(m); ok {
				m = now
			}
			machines = append(machines, m.Name)
		}
		slices.Sort(machines)
		out[rack.Name] = strings.Join(machines, " ")
	}
	return out
}

func poolContents(inv *inventory.Inventory) map[string]string {
	out := make(map[string]string, len(inv.Pools))
	for _, p := range inv.Pools {
		out[p.Name] = joined(inventory.RangesOf(p.Addresses()))
	}
	return out
}

func communityContents(inv *inventory.Inventory) map[string]string {
	out := make(map[string]string, len(inv.Communities))
	for name, c := range inv.Communities {
		out[name] = c.String()
	}
	return out
}

func routerContents(inv *inventory.Inventory) map[string]string {
	out := make(map[string]string, len(inv.Routers))
	for _, r := range inv.Routers {
		out[r.Name] = fmt.Sprint(r.Addresses)
	}
	return out
}

// renamedIn is the inventory with the new names in place of the old.
func renamedIn(inv *inventory.Inventory, names newNames) *inventory.Inventory {
	out := inv.Clone()
	out.Communities = make(map[string]inventory.Community, len(inv.Communities))
	for name, c := range inv.Communities {
		out.Communities[now(names.communities, name)] = c
	}
	for i := range out.Routers {
		r := &out.Routers[i]
		r.Name, r.Rack = now(names.routers, r.Name), now(names.racks, r.Rack)
	}
	out.Pools = slices.Clone(inv.Pools)
	for i := range out.Pools {
		p := &out.Pools[i]
		p.Name = now(names.pools, p.Name)
		p.Advertise = slices.Clone(p.Advertise)
		for j := range p.Advertise {
			a := &p.Advertise[j]
			a.Racks, a.Routers = nowAll(names.racks, a.Racks), nowAll(names.routers, a.Routers)
		}
	}
	out.Storage = slices.Clone(inv.Storage)
	for i := range out.Storage {
		out.Storage[i].Rack = now(names.racks, out.Storage[i].Rack)
	}
	out.Expect = inventory.Expect{Racks: nowAll(names.racks, inv.Expect.Racks), Pools: nowAll(names.pools, inv.Expect.Pools)}
	for i := range out.Racks {
		r := &out.Racks[i]
		r.Name, r.Peers = now(names.racks, r.Name), nowAll(names.routers, r.Peers)
		for j := range r.Machines {
			r.Machines[j].Rack = r.Name
		}
	}
	slices.SortFunc(out.Routers, func(a, b inventory.Router) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Pools, func(a, b inventory.Pool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Racks, func(a, b inventory.Rack) int { return cmp.Compare(a.Name, b.Name) })
	out.Reindex()
	return out
}

func now(names map[string]string, name string) string {
	if other, ok := names[name]; ok {
		return other
	}
	return name
}

// nowAll are names that are sorted, and are sorted again.
func nowAll(names map[string]string, all []string) []string {
	out := slices.Clone(all)
	for i := range out {
		out[i] = now(names, out[i])
	}
	slices.Sort(out)
	return out
}
