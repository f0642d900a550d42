package routing

import (
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
func Plan(v View) Table { return new(Planner).Plan(v) }

// placed holds the routes, peers and refusals of claims: each part in the order of their CIDRs.
type placed struct {
	routes  []Route
	peers   []Peer
	refused []Refusal
}

// place decides on sorted claims, of which none overlaps with one that is not there.
func (p *Planner) place(claims []claim) (out placed) {
	for len(claims) > 0 {
		count := overlapping(claims)
		held := claims[:count]
		if count > 1 {
			var refused []Refusal
			held, refused = settle(held)
			out.refused = append(out.refused, refused...)
		}
		for _, c := range held {
			p.one(&out, c)
		}
		claims = claims[count:]
	}
	return out
}

// one adds the route to a CIDR that its Node holds, or why there is none.
func (p *Planner) one(out *placed, claim claim) {
	mode := p.view.Mode
	switch hop, near := p.input.neighbour(claim.node, family(claim.cidr.Addr())); {
	case claim.node.Name == p.view.Self.Name:
		out.routes = append(out.routes, Route{Dst: claim.cidr, Kind: Unreachable})
	case near && hop.IsValid():
		out.routes = append(out.routes, Route{Dst: claim.cidr, Via: Via(hop)})
	case mode == inventory.ModeOverlay:
		peer, ok := p.tunnel.peer(claim)
		if !ok {
			out.refuse(claim, NodeWithoutAddress)
			return
		}
		out.peers = append(out.peers, peer)
		out.routes = append(out.routes, Route{Dst: claim.cidr, Tunnel: true, Via: Via(peer.NextHop())})
	case near || !slices.ContainsFunc(claim.node.Addresses, func(a netip.Addr) bool { return family(a) == family(claim.cidr.Addr()) }):
		out.refuse(claim, NodeWithoutAddress)
	case mode == inventory.ModeDirect:
		out.refuse(claim, NodeOfOtherSubnet)
	}
}

func (out *placed) refuse(c claim, r Reason) {
	out.refused = append(out.refused, Refusal{Node: c.node.Name, CIDR: c.cidr, Reason: r})
}

// network returns the routes and refusals that do not depend on other Nodes: routes that lead to the pod
// network as a whole (the routers in fabric; in overlay nothing does, since all
// nodes are known).
func network(view *View) (routes []Route, refused []Refusal) {
	for _, cidr := range view.Cluster {
		if within(view.Self.PodCIDRs, cidr) {
			continue // ours alone: a route to the routers would send back what they sent
		}
		switch view.Mode {
		case inventory.ModeOverlay:
			routes = append(routes, Route{Dst: cidr.Masked(), Kind: Unreachable})
		case inventory.ModeFabric:
			via := Via(leadingTo(view.Gateways, cidr.Addr())...)
			if !via.First().IsValid() {
				refused = append(refused, Refusal{CIDR: cidr, Reason: NoGateway})
				continue
			}
			routes = append(routes, Route{Dst: cidr.Masked(), Via: via})
		case inventory.ModeNone, inventory.ModeDirect: // nothing leads to other subnets
		}
	}
	slices.SortFunc(routes, Route.Compare)
	return slices.Compact(routes), refused
}

// input holds the properties of this node, worked out once for all the others.
type input struct {
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

func inputOf(view View) input {
	in := input{rack: view.Self.Rack}
	for _, a := range view.Self.Addresses {
		in.has[family(a)] = true
	}
	for _, s := range view.Subnets {
		f := family(s.Addr())
		in.given[f] = true
		if slices.ContainsFunc(view.Self.Addresses, s.Contains) {
			in.subnet[f] = append(in.subnet[f], s)
		}
	}
	return in
}

// neighbour reports whether a Node is of our subnet as far as the family is concerned,
// and the address that it is reached at; invalid, if it has none.
func (in *input) neighbour(node *Node, fam int) (hop netip.Addr, near bool) {
	if in.given[fam] {
		hop = in.covered(node, fam)
		return hop, hop.IsValid()
	}
	if !in.sameSubnet(node) {
		return netip.Addr{}, false
	}
	if in.has[fam] {
		for _, a := range node.Addresses {
			if family(a) == fam {
				return a, true
			}
		}
	}
	return netip.Addr{}, true
}

// sameSubnet reports whether a Node is in the subnet of this one. For families of which the rack has no subnet, the
// machines' other addresses decide, or, without any subnet, the rack.
func (in *input) sameSubnet(n *Node) bool {
	if !in.given[0] && !in.given[1] {
		return n.Rack == in.rack
	}
	return in.covered(n, 0).IsValid() || in.covered(n, 1).IsValid()
}

// covered is the node's first address in a subnet that one of ours is in, too.
func (in *input) covered(n *Node, f int) netip.Addr {
	for _, addr := range n.Addresses {
		if family(addr) != f {
			continue
		}
		for _, s := range in.subnet[f] {
			if s.Contains(addr) {
				return addr
			}
		}
	}
	return netip.Addr{}
}

// leadingTo are the gateways that are next hops of a route to what is of the family of to:
// those with an address of it, or else those that a link-local address is known of. The two
// are not mixed: whether a router is lost is judged among those of one kind.
func leadingTo(gateways []netip.Addr, to netip.Addr) []netip.Addr {
	var numbered, linkLocal []netip.Addr
	for _, a := range gateways {
		if a.Zone() != "" {
			linkLocal = append(linkLocal, a)
		} else if a.Is4() == to.Is4() {
			numbered = append(numbered, a)
		}
	}
	if len(numbered) > 0 {
		return numbered
	}
	return linkLocal
}
