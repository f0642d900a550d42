package routing

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// Plan decides on the routes of one node.
//
// Nodes of our own subnet are reached through their addresses in every mode, all
// others through the rack's routers (fabric) or the tunnel (overlay). An address
// within our own pod CIDRs that no pod holds is unreachable here: without that a
// packet for it would follow the default route back to the router that sent it.
func Plan(v View) Table {
	var t Table
	if v.Mode != inventory.ModeNone {
		held, refused := claims(v)
		t.Refusals = refused
		t.Routes = make([]Route, 0, len(held)+len(v.Cluster)+len(v.Pools))
		t.nodes(v, held)
		t.cluster(v)
	}
	for _, p := range v.Pools {
		t.Routes = append(t.Routes, Route{Dst: p.Masked(), Kind: UnreachableForwarded})
	}
	t.sort()
	return t
}

// nodes adds the routes to the pod CIDRs of each node.
func (t *Table) nodes(v View, held []claim) {
	tunnel, ground := newTunnel(v), groundOf(v)
	for _, c := range held {
		switch hop, near := ground.neighbour(c.node, family(c.cidr.Addr())); {
		case c.node.Name == v.Self.Name:
			t.Routes = append(t.Routes, Route{Dst: c.cidr, Kind: Unreachable})
		case near && hop.IsValid():
			t.Routes = append(t.Routes, Route{Dst: c.cidr, Via: Via(hop)})
		case near && v.Mode != inventory.ModeOverlay:
			t.refuse(c, NodeWithoutAddress)
		case v.Mode == inventory.ModeOverlay:
			route, ok := tunnel.route(c)
			if !ok {
				t.refuse(c, NodeWithoutAddress)
				continue
			}
			t.Routes = append(t.Routes, route)
		case v.Mode == inventory.ModeDirect:
			t.refuse(c, NodeOfOtherSubnet)
		}
	}
	if v.Mode == inventory.ModeOverlay {
		t.Tunnel = tunnel.Tunnel
	}
}

// cluster adds what leads to the pod network as a whole: the routers in fabric;
// in overlay nothing does, since all nodes are known.
func (t *Table) cluster(v View) {
	for _, c := range v.Cluster {
		if within(v.Self.PodCIDRs, c) {
			continue // ours alone: a route to the routers would send back what they sent
		}
		switch v.Mode {
		case inventory.ModeOverlay:
			t.Routes = append(t.Routes, Route{Dst: c.Masked(), Kind: Unreachable})
		case inventory.ModeFabric:
			via := Via(ofFamily(v.Gateways, c.Addr())...)
			if via.Len() == 0 {
				t.Refusals = append(t.Refusals, Refusal{CIDR: c, Reason: NoGateway})
				continue
			}
			t.Routes = append(t.Routes, Route{Dst: c.Masked(), Via: via})
		}
	}
}

func (t *Table) refuse(c claim, r Reason) {
	t.Refusals = append(t.Refusals, Refusal{Node: c.node.Name, CIDR: c.cidr, Reason: r})
}

func (t *Table) sort() {
	slices.SortFunc(t.Routes, Route.Compare)
	t.Routes = slices.CompactFunc(t.Routes, func(a, b Route) bool { return a.Key() == b.Key() })
	slices.SortFunc(t.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), comparePrefix(a.CIDR, b.CIDR), cmp.Compare(a.Reason, b.Reason))
	})
}

// ground is where this node stands, worked out once for all the others.
type ground struct {
	rack   string
	has    [2]bool           // an address, by family
	subnet [2][]netip.Prefix // that cover an address of ours, by family
	given  [2]bool           // the rack has subnets of the family
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func groundOf(v View) ground {
	g := ground{rack: v.Self.Rack}
	for _, a := range v.Self.Addresses {
		g.has[family(a)] = true
	}
	for _, s := range v.Subnets {
		f := family(s.Addr())
		g.given[f] = true
		if slices.ContainsFunc(v.Self.Addresses, s.Contains) {
			g.subnet[f] = append(g.subnet[f], s)
		}
	}
	return g
}

// neighbour reports whether n is of our subnet as far as the family is concerned,
// and the address that it is reached at; invalid, if it has none.
func (g *ground) neighbour(n *Node, f int) (hop netip.Addr, near bool) {
	if g.given[f] {
		hop = g.covered(n, f)
		return hop, hop.IsValid()
	}
	if !g.sameSubnet(n) {
		return netip.Addr{}, false
	}
	if g.has[f] {
		for _, a := range n.Addresses {
			if family(a) == f {
				return a, true
			}
		}
	}
	return netip.Addr{}, true
}

// sameSubnet is for families that the rack gives no subnet of: there the
// machines' other addresses decide, or, without any subnet, the rack.
func (g *ground) sameSubnet(n *Node) bool {
	if !g.given[0] && !g.given[1] {
		return n.Rack == g.rack
	}
	return g.covered(n, 0).IsValid() || g.covered(n, 1).IsValid()
}

// covered is the node's first address in a subnet that one of ours is in, too.
func (g *ground) covered(n *Node, f int) netip.Addr {
	for _, a := range n.Addresses {
		if family(a) != f {
			continue
		}
		for _, s := range g.subnet[f] {
			if s.Contains(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

func ofFamily(addrs []netip.Addr, of netip.Addr) []netip.Addr {
	var kept []netip.Addr
	for _, a := range addrs {
		if a.Is4() == of.Is4() {
			kept = append(kept, a)
		}
	}
	return kept
}
