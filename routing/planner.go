package routing

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// Planner plans like [Plan], again and again, and remembers what it has planned: where
// only Nodes differ from the last view, it decides anew on what their CIDRs overlap
// with. The rest is copied. Its zero value has planned nothing yet.
type Planner struct {
	view    View
	ground  ground
	tunnel  Tunnel  // without peers
	network placed  // what no other Node has a part in
	pools   []Route // that answer for pools
	coarse  []netip.Prefix
	claims  book
	nodes   placed // what becomes of the claims
	table   Table
	planned bool
}

// Plan decides on the routes of one node. The caller may keep the table.
func (p *Planner) Plan(v View) Table {
	changes := compareNodes(p.view.Nodes, v.Nodes)
	switch same := p.planned && sameGround(&p.view, &v); {
	case !same || len(changes) > 16+len(v.Nodes)/16:
		p.begin(v)
	case len(changes) > 0:
		p.view.Nodes = v.Nodes
		for _, c := range changes {
			p.change(c)
		}
		if slices.ContainsFunc(changes, func(c change) bool { return c.touchesPools(v.Pools) }) {
			p.pools, p.coarse = overPools(&p.view)
		}
		p.table = p.whole()
	}
	return p.table
}

// begin plans from nothing.
func (p *Planner) begin(v View) {
	*p = Planner{view: v, ground: groundOf(v), tunnel: tunnelOf(&v), planned: true}
	p.network.routes, p.network.refused = network(&v)
	p.pools, p.coarse = overPools(&v)
	if v.Mode != inventory.ModeNone {
		var all []claim
		var refused []Refusal
		add := func(n *Node) {
			c, r := claimsOf(&v, n)
			all, refused = append(all, c...), append(refused, r...)
		}
		add(&p.view.Self)
		for _, n := range v.Nodes {
			if n.Name != v.Self.Name {
				add(n)
			}
		}
		p.claims.open(all)
		p.nodes = p.place(p.claims.all)
		p.nodes.refused = append(p.nodes.refused, refused...)
	}
	p.table = p.whole()
}

// change is a Node that is not as it was; nil: it was not there, or is not any more.
type change struct{ old, new *Node }

// compareNodes returns what differs between two lists that are sorted by name. Nodes
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

// change takes one Node's claims out of the book, or into it, and decides anew on all
// that overlaps with them.
func (p *Planner) change(c change) {
	if p.view.Mode == inventory.ModeNone {
		return
	}
	var touched []claim
	if c.old != nil && c.old.Name != p.view.Self.Name {
		was, _ := claimsOf(&p.view, c.old)
		touched = append(touched, was...)
		p.nodes.refused = slices.DeleteFunc(p.nodes.refused, func(r Refusal) bool {
			return r.Node == c.old.Name && r.Reason == PodCIDROutsideNetwork
		})
	}
	before := p.tops(touched)
	for _, t := range touched {
		p.claims.remove(t)
	}
	if c.new != nil && c.new.Name != p.view.Self.Name {
		is, refused := claimsOf(&p.view, c.new)
		p.nodes.refused = append(p.nodes.refused, refused...)
		touched = append(touched, is...)
		for _, t := range is {
			p.claims.insert(t)
		}
	}
	for _, region := range widest(append(before, p.tops(touched)...)) {
		p.again(region)
	}
}

// tops are the widest CIDRs that anybody claims around each of some claims.
func (p *Planner) tops(of []claim) (all []netip.Prefix) {
	for _, c := range of {
		all = append(all, p.claims.top(c.cidr))
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

// again decides anew on all claims in a region.
func (p *Planner) again(region netip.Prefix) {
	n := &p.nodes
	n.refused = slices.DeleteFunc(n.refused, func(r Refusal) bool {
		return r.Reason != PodCIDROutsideNetwork && region.Overlaps(r.CIDR)
	})
	now := p.place(p.claims.within(region))
	from, to := span(n.routes, region, func(r Route) netip.Prefix { return r.Dst })
	n.routes = slices.Replace(n.routes, from, to, now.routes...)
	from, to = span(n.peers, region, func(x Peer) netip.Prefix { return netip.PrefixFrom(x.Inner, x.Inner.BitLen()) })
	n.peers = slices.Replace(n.peers, from, to, now.peers...)
	n.refused = append(n.refused, now.refused...)
}

// whole puts the table together; nothing in it is changed later.
func (p *Planner) whole() Table {
	few := slices.SortedFunc(slices.Values(slices.Concat(p.network.routes, p.pools)), Route.Compare)
	t := Table{Routes: merge(few, p.nodes.routes), Tunnel: p.tunnel, Coarse: p.coarse}
	if t.Tunnel.Exists() {
		t.Tunnel.Peers = slices.Clone(p.nodes.peers)
	}
	t.Refusals = slices.Concat(p.network.refused, p.nodes.refused)
	slices.SortFunc(t.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), comparePrefix(a.CIDR, b.CIDR), cmp.Compare(a.Reason, b.Reason))
	})
	return t
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
