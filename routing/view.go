package routing

import (
	"net/netip"
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
	// Declared is what the inventory gives machines by hand, by the name of the Node: be it
	// outside of the pod network.
	Declared map[string][]netip.Prefix
	VXLAN    inventory.VXLAN // of the tunnel
	// AlsoVXLAN is what the tunnel takes packets with as well, while a change of it is under way.
	AlsoVXLAN inventory.VXLAN
	Pools     []netip.Prefix // where VIPs come from; what still bears one when it is forwarded is served by nobody
}

// Node is a machine as pod routes see it. One that a [View] has pointed to is never
// changed: the same pointer means the same Node.
type Node struct {
	Name      string
	Rack      string
	Created   time.Time    // of the Node object; of two that claim one CIDR the older keeps it
	Addresses []netip.Addr // internal ones, in order of preference
	PodCIDRs  []netip.Prefix
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

// Reason names why a pod CIDR is not routed. It is a metric label and has a row
// in docs/reference/reasons.md.
type Reason string

// The reasons of routing.
const (
	// PodCIDRInUse: an older Node claims the CIDR, or one that overlaps with it.
	PodCIDRInUse Reason = "PodCIDRInUse"
	// PodCIDROutsideNetwork: the CIDR is neither within podNetwork.cidrs nor what
	// the inventory gives the machine by hand.
	PodCIDROutsideNetwork Reason = "PodCIDROutsideNetwork"
	// NodeWithoutAddress: the Node has no address of the CIDR's family that we
	// could send to, or this machine has none to send from.
	NodeWithoutAddress Reason = "NodeWithoutAddress"
	// NodeOfOtherSubnet: in mode direct only nodes of one subnet reach each other.
	NodeOfOtherSubnet Reason = "NodeOfOtherSubnet"
	// NoGateway: in mode fabric this machine has no directly connected router that
	// leads to the family.
	NoGateway Reason = "NoGateway"
)

// Refusal says why the pods of a CIDR are not reached by a route of ours.
type Refusal struct {
	Node   string // empty: it is about all nodes behind routers
	CIDR   netip.Prefix
	Reason Reason
	Other  string // the name of the Node that holds the CIDR, or one that overlaps; only for PodCIDRInUse
}

// Table is what a node needs: routes sorted by destination and kind, each key
// once, refusals sorted by node and CIDR.
type Table struct {
	Routes   []Route
	Tunnel   Tunnel
	Refusals []Refusal
}
