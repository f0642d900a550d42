package preview

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/routing"
)

// PodPath is the path by which pods of one rack reach those of another, or of the same, one way: what comes
// back goes by the path of the reverse.
type PodPath struct {
	From, To string // racks
	Ways     []Way  // sorted; several where machines of a rack differ, or families
}

// Reachable reports whether any pod reaches another.
func (p PodPath) Reachable() bool {
	return slices.ContainsFunc(p.Ways, func(w Way) bool { return w.Kind != NoWay })
}

// WayKind is the kind of a way between pods, by the means that carries packets.
type WayKind string

// The kinds of way.
const (
	Direct  WayKind = "direct"  // a route to the other machine's address
	Fabric  WayKind = "fabric"  // the routers
	Overlay WayKind = "overlay" // the tunnel
	NoWay   WayKind = "unreachable"
)

// Way is the way of packets of one family from pods of some machines to those of others.
type Way struct {
	Family lb.Family
	Kind   WayKind
	// Out and In are names of routers, sorted; only for Fabric: those that the machine sends to,
	// and those that the other announces its pod CIDR to. Between them the routers carry packets
	// by their own means, which Plinth does not know. For NoWay with the reason NoGateway, In are those that carry the
	// packets if the machine's default route leads there, which Plinth does not know either.
	Out, In []string
	Reason  string // only for NoWay: one of package routing's, of package lb's, or RouterFailed
	Pairs   int    // of machines
}

// String tells the way without the pairs.
func (w Way) String() string {
	switch w.Kind {
	case NoWay:
		text := fmt.Sprintf("%s unreachable (%s)", w.Family, w.Reason)
		if len(w.In) > 0 {
			text += ", unless the default route leads to " + strings.Join(w.In, ", ")
		}
		return text
	case Fabric:
		return fmt.Sprintf("%s fabric by %s and %s", w.Family, strings.Join(w.Out, ", "), strings.Join(w.In, ", "))
	default:
		return fmt.Sprintf("%s %s", w.Family, w.Kind)
	}
}

func (w Way) compare(v Way) int {
	return cmp.Or(cmp.Compare(w.Family, v.Family), cmp.Compare(w.Kind, v.Kind), cmp.Compare(w.Reason, v.Reason),
		slices.Compare(w.Out, v.Out), slices.Compare(w.In, v.In))
}

// podMachine is a machine whose pods there are.
type podMachine struct {
	machine   inventory.Machine
	node      routing.Node
	gateways  map[netip.Addr]string // directly connected routers by address, dead ones too
	cut       bool                  // it has such routers, and all of them are dead
	announced map[netip.Prefix]announced
}

// announced holds the live routers that a machine announces one of its pod CIDRs to, or the reason why it does not.
type announced struct {
	routers []string
	refused string
}

// podGroup are machines of a rack that each way treats alike. To plan for one of them is enough.
type podGroup struct {
	rack  string
	first *podMachine
	other *podMachine // a second one; nil: there is none
	count int
}

// PodPaths returns the paths between the pods of all racks, sorted. Where a CNI routes pods, and
// between racks without any machine whose pods there are, there are none.
func (p *Preview) PodPaths() []PodPath {
	if p.inv.PodNetwork.Mode == inventory.ModeNone {
		return nil
	}
	if p.paths == nil {
		p.paths = p.pathsOf(p.podGroups())
	}
	return p.paths
}

func (p *Preview) pathsOf(groups []podGroup) []PodPath {
	declared := routing.DeclaredIn(p.inv)
	var tables []podTable
	for _, g := range groups {
		tables = append(tables, p.podTable(g, groups, declared))
	}
	all := map[[2]string]map[string]*Way{}
	for i, from := range groups {
		for _, to := range groups {
			pair := [2]string{from.rack, to.rack}
			if all[pair] == nil {
				all[pair] = map[string]*Way{}
			}
			tables[i].addWays(all[pair], from, to)
		}
	}
	return sortedPaths(all)
}

func sortedPaths(all map[[2]string]map[string]*Way) (paths []PodPath) {
	for pair, ways := range all {
		path := PodPath{From: pair[0], To: pair[1]}
		for _, w := range ways {
			path.Ways = append(path.Ways, *w)
		}
		slices.SortFunc(path.Ways, Way.compare)
		if len(path.Ways) > 0 {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b PodPath) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return paths
}

// podTable holds the routes to pods that one machine plans.
type podTable struct {
	failed  Failures
	from    *podMachine
	exact   map[netip.Prefix]routing.Route
	wide    []routing.Route // that lead to several Nodes
	refused map[[2]string]routing.Reason
}

// podTable plans the routes of a group's first machine as its agent does.
func (p *Preview) podTable(group podGroup, groups []podGroup, declared map[string][]netip.Prefix) podTable {
	racks, all := routing.Neighbourhood(p.inv, p.inv.PodNetwork.Mode, group.rack)
	view := routing.ViewOf(p.inv, group.first.machine, group.first.node, p.inv.PodNetwork.Mode, p.deadAddresses())
	view.Declared = declared
	for _, o := range groups {
		if all || slices.Contains(racks, o.rack) {
			view.Nodes = append(view.Nodes, &o.first.node)
			if o.other != nil {
				view.Nodes = append(view.Nodes, &o.other.node)
			}
		}
	}
	slices.SortFunc(view.Nodes, func(a, b *routing.Node) int { return cmp.Compare(a.Name, b.Name) })
	planned := routing.Plan(view)
	table := podTable{failed: p.failed, from: group.first, exact: map[netip.Prefix]routing.Route{}, refused: map[[2]string]routing.Reason{}}
	for _, r := range planned.Routes {
		if r.Kind == routing.Unicast && slices.ContainsFunc(view.Cluster, func(c netip.Prefix) bool { return c.Masked() == r.Dst }) {
			table.wide = append(table.wide, r)
		}
		table.exact[r.Dst] = r
	}
	for _, r := range planned.Refusals {
		table.refused[[2]string{r.Node, r.CIDR.String()}] = r.Reason
		if r.Node == view.Self.Name && r.Reason == routing.PodCIDRInUse { // it is not announced then
			group.first.announced[r.CIDR.Masked()] = announced{refused: string(r.Reason)}
		}
	}
	return table
}

// deadAddresses returns the addresses of routers that are assumed to be dead.
func (p *Preview) deadAddresses() map[netip.Addr]bool {
	dead := map[netip.Addr]bool{}
	for name := range p.failed.Routers {
		if r, ok := p.inv.Router(name); ok {
			for _, a := range r.Addresses {
				dead[a] = true
			}
		}
	}
	return dead
}

// addWays adds the ways from one group to another.
func (t podTable) addWays(ways map[string]*Way, from, to podGroup) {
	target, pairs := to.first, from.count*to.count
	if from.first == to.first {
		if target, pairs = to.other, from.count*(to.count-1); target == nil {
			return
		}
	}
	seen := map[lb.Family]bool{}
	for _, cidr := range target.node.PodCIDRs {
		family := lb.FamilyOf(cidr.Addr())
		if seen[family] || !from.has(family) {
			continue // a Node has one of each family, and pods without an address of it send nothing there
		}
		seen[family] = true
		w := t.way(target, cidr)
		w.Family = family
		key := w.String()
		if ways[key] == nil {
			ways[key] = &w
		}
		ways[key].Pairs += pairs
	}
}

// has reports whether the pods of a group have addresses of a family.
func (g podGroup) has(f lb.Family) bool {
	return slices.ContainsFunc(g.first.node.PodCIDRs, func(c netip.Prefix) bool { return lb.FamilyOf(c.Addr()) == f })
}

// way returns the way of packets to a CIDR of another machine: by the route that the kernel would take.
func (t podTable) way(to *podMachine, cidr netip.Prefix) Way {
	r, own := t.exact[cidr.Masked()]
	if own && r.Kind == routing.Unicast {
		switch {
		case !r.Tunnel:
			return Way{Kind: Direct}
		case t.from.cut || to.cut:
			return unreachable(string(RouterFailed))
		}
		return Way{Kind: Overlay}
	}
	i := slices.IndexFunc(t.wide, func(r routing.Route) bool { return inventory.Covers(r.Dst, cidr) })
	if i < 0 {
		w := unreachable(string(t.refusal(to, cidr)))
		if w.Reason == string(routing.NoGateway) {
			w.In = to.announced[cidr.Masked()].routers
		}
		return w
	}
	return t.fabric(t.wide[i], to.announced[cidr.Masked()])
}

func unreachable(reason string) Way { return Way{Kind: NoWay, Reason: reason} }

// refusal returns the reason why no route of ours leads to a CIDR of another machine.
func (t podTable) refusal(to *podMachine, cidr netip.Prefix) routing.Reason {
	if r, told := t.refused[[2]string{to.node.Name, cidr.String()}]; told {
		return r
	}
	for key, r := range t.refused {
		if whole, err := netip.ParsePrefix(key[1]); key[0] == "" && err == nil && inventory.Covers(whole, cidr) {
			return r
		}
	}
	return routing.NodeOfOtherSubnet
}

// fabric is the way through routers: those that the machine sends to, and those that know of
// the other's pods.
func (t podTable) fabric(r routing.Route, other announced) Way {
	way := Way{Kind: Fabric, In: other.routers}
	for _, hop := range r.Via.All() {
		if name, known := t.from.gateways[hop]; known && !t.failed.Routers[name] {
			way.Out = append(way.Out, name)
		}
	}
	way.Out = inventory.SortedOnce(way.Out)
	switch {
	case len(way.Out) == 0:
		return unreachable(string(RouterFailed))
	case len(way.In) == 0:
		return unreachable(other.refused)
	}
	return way
}

// podGroups puts machines together that all ways treat alike.
func (p *Preview) podGroups() (groups []podGroup) {
	machines := p.podMachines()
	crowded := crowded(machines)
	var subnets []netip.Prefix
	for _, r := range p.inv.Racks {
		subnets = append(subnets, r.Subnets...)
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	subnets = slices.Compact(subnets)
	at := map[string]int{}
	for _, machine := range machines {
		key := machine.kind(p.inv, subnets)
		if crowded[machine.node.Name] != "" {
			key = machine.node.Name
		}
		i, known := at[key]
		if !known {
			at[key] = len(groups)
			groups = append(groups, podGroup{rack: machine.machine.Rack, first: machine, count: 1})
			continue
		}
		g := &groups[i]
		if g.other == nil {
			g.other = machine
		}
		g.count++
	}
	return groups
}

// kind is all of a machine that ways depend on. Which routers it has follows from its rack and the
// families of its addresses.
func (m *podMachine) kind(inv *inventory.Inventory, subnets []netip.Prefix) string {
	var text strings.Builder
	fmt.Fprintln(&text, "rack", m.machine.Rack)
	for _, a := range m.node.Addresses {
		fmt.Fprintln(&text, a.Is4())
		for i, s := range subnets {
			if s.Contains(a) {
				fmt.Fprintln(&text, i)
			}
		}
	}
	for _, c := range m.node.PodCIDRs {
		inside := slices.ContainsFunc(inv.PodNetwork.CIDRs, func(n netip.Prefix) bool { return inventory.Covers(n, c) })
		byHand := slices.ContainsFunc(m.machine.PodCIDRs, func(n netip.Prefix) bool { return inventory.Covers(n, c) })
		fmt.Fprintln(&text, c.Addr().Is4(), inside, inside || byHand, m.announced[c.Masked()])
	}
	return text.String()
}

// crowded are the Nodes of whose pod CIDRs one overlaps with another's: of those the planner
// decides by their age, so each stands for itself.
func crowded(machines []*podMachine) map[string]string {
	cidrs := map[string][]netip.Prefix{}
	for _, m := range machines {
		cidrs[m.node.Name] = m.node.PodCIDRs
	}
	return routing.Overlaps(cidrs)
}

// hasPods reports whether the machine runs pods that are routed. One that is planned, off or
// retired runs none.
func (m machine) hasPods() bool {
	return len(m.pods) > 0 && (m.inv.State == inventory.StateActive || m.inv.State == inventory.StateMaintenance)
}

// podMachines are the machines whose pods there are, in the order of their names.
func (p *Preview) podMachines() (out []*podMachine) {
	for _, machine := range p.machines {
		if !machine.hasPods() {
			continue
		}
		pm := &podMachine{
			machine:   machine.inv,
			node:      routing.Node{Name: machine.node, ProviderID: machine.inv.ProviderID(), Rack: machine.inv.Rack, Created: machine.created, Addresses: machine.inv.Addresses, PodCIDRs: machine.pods},
			gateways:  map[netip.Addr]string{},
			announced: map[netip.Prefix]announced{},
		}
		alive := false
		for _, s := range p.inv.Sessions(machine.inv) {
			if s.Multihop == 0 {
				pm.gateways[s.RouterAddr] = s.Router
				alive = alive || !p.failed.Routers[s.Router]
			}
		}
		pm.cut = len(pm.gateways) > 0 && !alive
		for _, c := range machine.pods {
			pm.announced[c.Masked()] = p.announcedOf(machine.reach, c)
		}
		out = append(out, pm)
	}
	return out
}

// announcedOf returns the announcement of one pod CIDR of a machine.
func (p *Preview) announcedOf(reach advertise.Reach, cidr netip.Prefix) announced {
	routers, refused := reach.OfPods(cidr)
	all := announced{refused: string(refused)}
	for _, r := range routers {
		if !p.failed.Routers[r] {
			all.routers = append(all.routers, r)
		}
	}
	switch {
	case len(all.routers) > 0:
		all.refused = ""
	case len(routers) > 0:
		all.refused = string(RouterFailed)
	}
	return all
}
