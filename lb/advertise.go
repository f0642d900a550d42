package lb

import (
	"net/netip"

	"plinth.dev/plinth/inventory"
)

// View is all that a machine knows when it decides what to announce.
type View struct {
	Inventory    *inventory.Inventory // what is in force, at least this machine's rack and what is common
	Machine      inventory.Machine
	PodCIDRs     []netip.Prefix // of the Node; announced where the session says so
	Offers       []Offer        // in any order
	Excluded     bool           // the Node bears node.kubernetes.io/exclude-from-external-load-balancers
	ProxyHealthy bool           // kube-proxy serves, or could not be asked
	Draining     bool           // announce with GRACEFUL_SHUTDOWN (RFC 8326)
	Withdrawn    bool           // announce nothing: the drain time is over
}

// Advertisement is one prefix and the attributes that it is announced with to
// one router. It compares with ==.
type Advertisement struct {
	Prefix      netip.Prefix
	NextHop     netip.Addr // invalid: the source address of the session
	LocalPref   uint32     // 0: not sent
	Prepend     uint8      // times that our own ASN is put before the path once more
	Communities inventory.Communities
	Bandwidth   uint32 // link bandwidth in bytes a second; 0: not sent
}

// SessionPlan is all that is to be said over one session, sorted by prefix.
type SessionPlan struct {
	Session        inventory.Session
	Advertisements []Advertisement
}

// Refusal says why a VIP or a pod CIDR is not announced to a router, or to any when
// Router is empty. It compares with ==.
type Refusal struct {
	Service ServiceKey   // zero: of a pod CIDR
	VIP     netip.Addr   // invalid: of a pod CIDR
	PodCIDR netip.Prefix // invalid: of a VIP
	Router  string
	Reason  Reason
}

// Plan is what a machine announces, and what it does not. Sessions are sorted
// by router and address, refusals by Service, VIP and router.
type Plan struct {
	Sessions []SessionPlan
	Refusals []Refusal
}
