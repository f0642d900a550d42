package routing

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// Planner plans like [Plan], again and again, and keeps the last plan: where
// only Nodes differ from the last view, it decides anew on the claims that their CIDRs overlap
// with. The rest is copied. Its zero value has planned nothing yet.
type Planner struct {
	view    View
	input   input
	tunnel  Tunnel  // without peers
	network placed  // what no other Node has a part in
	pools   []Route // that answer for pools
	coarse  []netip.Prefix
	claims  claimIndex
	nodes   placed // what becomes of the claims
	table   Table
	planned bool
}

// Plan decides on the routes of one node. The caller may keep the table.
func (p *Planner) Plan(view View) Table {
	changes := compareNodes(p.view.Nodes, view.Nodes)
	switch same := p.planned && sameGround(&p.view, &view); {
	case !same || len(changes) > 16+len(view.Nodes)/16:
		p.begin(view)
	case len(changes) > 0:
		p.view.Nodes = view.Nodes
		for _, c := range changes {
			p.change(c)
		}
		if slices.ContainsFunc(changes, func(c change) bool { return c.touchesPools(view.Pools) }) {
			p.pools, p.coarse = overPools(&p.view)
		}
		p.table = p.assemble()
	}
	return p.table
}

// begin plans without a last plan.
func (p *Planner) begin(view View) {
	*p = Planner{view: view, input: inputOf(view), tunnel: tunnelOf(&view), planned: true}
	p.network.routes, p.network.refused = network(&view)
	p.pools, p.coarse = overPools(&view)
	if view.Mode != inventory.ModeNone {
		var all []claim
		var refused []Refusal
		add := func(n *Node) {
			c, r := claimsOf(&view, n)
			all, refused = append(all, c...), append(refused, r...)
		}
		add(&p.view.Self)
		for _, n := range view.Nodes {
			if n.Name != view.Self.Name {
				add(n)
			}
		}
		p.claims.open(all)
		p.nodes = p.place(p.claims.all)
		p.nodes.refused = append(p.nodes.refused, refused...)
	}
	p.table = p.assemble()
}

// change is a changed Node, before and after; nil: it was not there, or is not any more.
type change struct{ old, new *Node }

// compareNodes returns the changes between two lists that are sorted by name. Nodes
// that did not change are the same pointers.
func compareNodes(old, now []*Node) (changes []change) {
	for len(old) > 0 && len(now) > 0 {
		if old[0] == now[0] {
			old, now = old[1:], now[1:]
			continue
		}
		switch c := cmp.Compare(old[0].Name, now[0].Name); {
		case c < 0:
			changes, old = append(changes, change{old[0], nil}), old[1:]
		case c > 0:
			changes, now = append(changes, change{nil, now[0]}), now[1:]
		default:
			changes, old, now = append(changes, change{old[0], now[0]}), old[1:], now[1:]
		}
	}
	for _, n := range old {
		changes = append(changes, change{n, nil})
	}
	for _, n := range now {
		changes = append(changes, change{nil, n})
	}
	return changes
}

// sameGround reports whether two views differ in their Nodes at most.
func sameGround(a, b *View) bool {
	return a.Mode == b.Mode && a.VXLAN == b.VXLAN && a.AlsoVXLAN == b.AlsoVXLAN && a.Self.equal(&b.Self) &&
		slices.Equal(a.Cluster, b.Cluster) && slices.Equal(a.Subnets, b.Subnets) && slices.Equal(a.Gateways, b.Gateways) &&
		slices.Equal(a.Pools, b.Pools) && slices.Equal(a.Taken, b.Taken) && maps.EqualFunc(a.Declared, b.Declared, slices.Equal)
}

func (n *Node) equal(o *Node) bool {
	return n.Name == o.Name && n.ProviderID == o.ProviderID && n.Rack == o.Rack && n.Created.Equal(o.Created) &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// change takes one Node's claims out of the index, or into it, and decides anew on all
// that overlaps with them.
func (p *Planner) change(change change) {
	if p.view.Mode == inventory.ModeNone {
		return
	}
	var touched []claim
	if change.old != nil && change.old.Name != p.view.Self.Name {
		was, _ := claimsOf(&p.view, change.old)
		touched = append(touched, was...)
		p.nodes.refused = slices.DeleteFunc(p.nodes.refused, func(r Refusal) bool {
			return r.Node == change.old.Name && r.Reason == PodCIDROutsideNetwork
		})
	}
	before := p.widestAround(touched)
	for _, t := range touched {
		p.claims.remove(t)
	}
	if change.new != nil && change.new.Name != p.view.Self.Name {
		is, refused := claimsOf(&p.view, change.new)
		p.nodes.refused = append(p.nodes.refused, refused...)
		touched = append(touched, is...)
		for _, t := range is {
			p.claims.insert(t)
		}
	}
	for _, region := range widest(append(before, p.widestAround(touched)...)) {
		p.replan(region)
	}
}

// widestAround returns the widest CIDRs that any Node claims around each of some claims.
func (p *Planner) widestAround(of []claim) (all []netip.Prefix) {
	for _, c := range of {
		all = append(all, p.claims.widestOf(c.cidr))
	}
	return all
}

// widest leaves out the prefixes that others contain.
func widest(all []netip.Prefix) []netip.Prefix {
	slices.SortFunc(all, comparePrefix)
	kept := all[:0]
	for _, p := range all {
		if n := len(kept); n == 0 || !kept[n-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// replan decides anew on all claims in a region.
func (p *Planner) replan(region netip.Prefix) {
	placed := &p.nodes
	placed.refused = slices.DeleteFunc(placed.refused, func(r Refusal) bool {
		return r.Reason != PodCIDROutsideNetwork && region.Overlaps(r.CIDR)
	})
	now := p.place(p.claims.within(region))
	from, to := span(placed.routes, region, func(r Route) netip.Prefix { return r.Dst })
	placed.routes = slices.Replace(placed.routes, from, to, now.routes...)
	from, to = span(placed.peers, region, func(x Peer) netip.Prefix { return netip.PrefixFrom(x.Inner, x.Inner.BitLen()) })
	placed.peers = slices.Replace(placed.peers, from, to, now.peers...)
	placed.refused = append(placed.refused, now.refused...)
}

// assemble puts the table together; nothing in it is changed later.
func (p *Planner) assemble() Table {
	few := slices.SortedFunc(slices.Values(slices.Concat(p.network.routes, p.pools)), Route.Compare)
	table := Table{Routes: merge(few, p.nodes.routes), Tunnel: p.tunnel, Coarse: p.coarse}
	if table.Tunnel.Exists() {
		table.Tunnel.Peers = slices.Clone(p.nodes.peers)
	}
	table.Refusals = slices.Concat(p.network.refused, p.nodes.refused)
	slices.SortFunc(table.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), comparePrefix(a.CIDR, b.CIDR), cmp.Compare(a.Reason, b.Reason))
	})
	return table
}

// merge joins a few sorted routes with many. Where a Node holds what leads to the pod
// network as a whole, its own route is the one.
func merge(few, many []Route) []Route {
	out := make([]Route, 0, len(few)+len(many))
	for _, f := range few {
		i, taken := slices.BinarySearchFunc(many, f, Route.Compare)
		out = append(out, many[:i]...)
		if many = many[i:]; !taken {
			out = append(out, f)
		}
	}
	return append(out, many...)
}
