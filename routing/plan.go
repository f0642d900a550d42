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
	tunnel := newTunnel(v)
	for _, c := range held {
		switch hop, near := neighbour(v, *c.node, c.cidr.Addr()); {
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

// neighbour reports whether n is of our subnet as far as the family is concerned,
// and the address that it is reached at; invalid, if it has none.
func neighbour(v View, n Node, family netip.Addr) (hop netip.Addr, near bool) {
	theirs := ofFamily(n.Addresses, family)
	if subnets := ofFamilyPrefix(v.Subnets, family); len(subnets) > 0 {
		for _, a := range theirs {
			if sharesSubnet(subnets, v.Self.Addresses, a) {
				return a, true
			}
		}
		return netip.Addr{}, false
	}
	if !sameSubnet(v, n) {
		return netip.Addr{}, false
	}
	if len(theirs) == 0 || len(ofFamily(v.Self.Addresses, family)) == 0 {
		return netip.Addr{}, true
	}
	return theirs[0], true
}

// sameSubnet is for families that the rack gives no subnet of: there the
// machines' other addresses decide, or, without any subnet, the rack.
func sameSubnet(v View, n Node) bool {
	if len(v.Subnets) == 0 {
		return n.Rack == v.Self.Rack
	}
	return slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool {
		return sharesSubnet(v.Subnets, v.Self.Addresses, a)
	})
}

// sharesSubnet reports whether one of the subnets covers a and one of ours.
func sharesSubnet(subnets []netip.Prefix, ours []netip.Addr, a netip.Addr) bool {
	return slices.ContainsFunc(subnets, func(s netip.Prefix) bool {
		return s.Contains(a) && slices.ContainsFunc(ours, s.Contains)
	})
}

func ofFamily(addrs []netip.Addr, family netip.Addr) []netip.Addr {
	return keep(addrs, func(a netip.Addr) bool { return a.Is4() == family.Is4() })
}

func ofFamilyPrefix(ps []netip.Prefix, family netip.Addr) []netip.Prefix {
	return keep(ps, func(p netip.Prefix) bool { return p.Addr().Is4() == family.Is4() })
}

// keep returns what of s satisfies ok, and s itself when all do: one address of
// each family is the common case, and a node plans for thousands of others.
func keep[T any](s []T, ok func(T) bool) []T {
	if !slices.ContainsFunc(s, func(t T) bool { return !ok(t) }) {
		return s
	}
	var kept []T
	for _, t := range s {
		if ok(t) {
			kept = append(kept, t)
		}
	}
	return kept
}
