package routing

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
