package routing

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
)

// View is all that a node knows when it decides on its routes.
type View struct {
	Mode     inventory.Mode
	Cluster  []netip.Prefix // the pod network
	Self     Node
	Subnets  []netip.Prefix // of this node's rack; none: the nodes of one rack are one subnet
	Nodes    []*Node        // sorted by name; the others, of our subnet in direct and fabric, all in overlay; Self may be among them
	Gateways []netip.Addr   // routers that are directly connected, for fabric; a link-local address bears its link as zone
	// Declared holds the pod CIDRs that the inventory gives machines by hand, be it outside of the pod network: by the name of the
	// machine, which is most often the Node's, and by each provider ID that the Node may have.
	Declared map[string][]netip.Prefix
	VXLAN    inventory.VXLAN // of the tunnel
	// AlsoVXLAN holds the port and VNI with which the tunnel accepts packets as well, while a change of it is under way.
	AlsoVXLAN inventory.VXLAN
	Pools     []netip.Prefix // where VIPs come from; a packet that still bears one when it is forwarded is served by no machine
	// Taken holds the addresses of pools that Nodes of the cluster have, be they machines or not, wherever they are.
	Taken []netip.Prefix
}

// ViewOf returns the view of a Node by the inventory alone: Nodes, Declared, Pools and Taken are for the
// caller to add. down are the addresses of routers that lost their session: they are no
// gateways, unless no other of their family is left.
func ViewOf(inv *inventory.Inventory, m inventory.Machine, self Node, mode inventory.Mode, down map[netip.Addr]bool) View {
	rack, _ := inv.Rack(m.Rack)
	self.Rack = m.Rack
	view := View{Mode: mode, Cluster: inv.PodNetwork.CIDRs, VXLAN: inv.PodNetwork.VXLAN, Self: self, Subnets: rack.Subnets}
	for _, s := range inv.Sessions(m) {
		if s.Multihop == 0 {
			view.Gateways = append(view.Gateways, s.RouterAddr)
		}
	}
	view.Gateways = gateways(view.Gateways, down)
	return view
}

// DeclaredIn returns the pod CIDRs that the inventory gives machines by hand, in the form of [View.Declared].
func DeclaredIn(inv *inventory.Inventory) map[string][]netip.Prefix {
	declared := map[string][]netip.Prefix{}
	for m := range inv.Machines() {
		for _, key := range append([]string{m.Name, m.ProviderID()}, m.Aliases...) {
			declared[key] = m.PodCIDRs
		}
	}
	return declared
}

// Neighbourhood are the racks whose Nodes a Node of a rack plans with, sorted; all: those of every
// rack. Where it is none, it plans no routes.
func Neighbourhood(inv *inventory.Inventory, mode inventory.Mode, rack string) (racks []string, all bool) {
	switch mode {
	case inventory.ModeNone:
		return nil, false
	case inventory.ModeOverlay:
		return nil, true
	case inventory.ModeDirect, inventory.ModeFabric:
	}
	racks = []string{rack}
	if r, ok := inv.Rack(rack); ok {
		racks = append(racks, inv.NeighboursOf(r)...)
	}
	slices.Sort(racks)
	return racks, false
}

// gateways are the routers that get traffic: all but those that are lost, unless no other
// of the family is left.
func gateways(all []netip.Addr, lost map[netip.Addr]bool) (out []netip.Addr) {
	left := map[bool]bool{}
	for _, a := range all {
		left[a.Is4()] = left[a.Is4()] || !lost[a]
	}
	for _, a := range all {
		if !lost[a] || !left[a.Is4()] {
			out = append(out, a)
		}
	}
	return out
}

// Node is a machine as pod routes see it. One that a [View] has pointed to is never
// changed: the same pointer means the same Node.
type Node struct {
	Name string
	// ProviderID is the one of its spec: a machine that is called otherwise than its Node is known by it.
	ProviderID string `json:",omitempty"`
	Rack       string
	Created    time.Time    // of the Node object; of two that claim one CIDR the older keeps it
	Addresses  []netip.Addr // internal ones, in order of preference
	PodCIDRs   []netip.Prefix
}

// ParsePodCIDRs reads spec.podCIDRs of a Node. The API server has checked it, and sees to
// it that spec.podCIDR is its first: what cannot be read is left out.
func ParsePodCIDRs(written []string) (out []netip.Prefix) {
	for _, s := range written {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// Refusal says why the pods of a CIDR are not reached by a route of ours.
type Refusal struct {
	Node   string // empty: it is about all nodes behind routers
	CIDR   netip.Prefix
	Reason Reason
	Other  string // the name of the Node that holds the CIDR, or one that overlaps; only for PodCIDRInUse
}

// Table is the routing plan of a node: routes sorted by destination and kind, each key
// once, refusals sorted by node and CIDR.
type Table struct {
	Routes   []Route
	Tunnel   Tunnel
	Refusals []Refusal
	// Coarse are blocks of pools that have so many Nodes or pods that more than these are not answered for, sorted.
	Coarse []netip.Prefix
}
