package advertise

import (
	"cmp"
	"net/netip"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// View is all that a machine knows when it decides what to announce.
type View struct {
	Inventory    *inventory.Inventory // what is in force, at least this machine's rack and what is common
	Machine      inventory.Machine
	PodCIDRs     []netip.Prefix // of the Node; announced where the session says so
	Offers       sorted.List[Offer]
	Excluded     bool // the Node bears node.kubernetes.io/exclude-from-external-load-balancers
	ProxyHealthy bool // kube-proxy serves, or could not be asked
	Draining     bool // announce with GRACEFUL_SHUTDOWN (RFC 8326)
	Withdrawn    bool // announce nothing: the drain time is over
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

// Compare sorts by prefix: a session announces each once.
func (a Advertisement) Compare(b Advertisement) int { return comparePrefixes(a.Prefix, b.Prefix) }

// comparePrefixes is netip's order of prefixes, which is worked out much sooner where
// both are of one length, as VIPs are.
func comparePrefixes(a, b netip.Prefix) int {
	if a.Bits() == b.Bits() && a.Addr().BitLen() == b.Addr().BitLen() {
		return a.Addr().Compare(b.Addr())
	}
	return a.Compare(b)
}

// SessionPlan is all that is to be announced over one session.
type SessionPlan struct {
	Session        inventory.Session
	Advertisements sorted.List[Advertisement]
}

// Refusal is the reason why a VIP or a pod CIDR is not announced to a router, or to any when
// Router is empty. It compares with ==.
type Refusal struct {
	Service lb.ServiceKey // zero: of a pod CIDR
	VIP     netip.Addr    // invalid: of a pod CIDR
	PodCIDR netip.Prefix  // invalid: of a VIP
	Router  string
	Reason  lb.Reason
}

// Compare sorts by Service, VIP, pod CIDR, router and reason.
func (r Refusal) Compare(o Refusal) int {
	return cmp.Or(
		r.Service.Compare(o.Service),
		r.VIP.Compare(o.VIP), r.PodCIDR.Addr().Compare(o.PodCIDR.Addr()), cmp.Compare(r.PodCIDR.Bits(), o.PodCIDR.Bits()),
		cmp.Compare(r.Router, o.Router), cmp.Compare(r.Reason, o.Reason),
	)
}

// Demotion is the reason why a prefix is announced as the worse way, though the machine is not
// drained. It compares with ==.
type Demotion struct {
	Prefix netip.Prefix
	Reason lb.Reason
}

// Compare sorts by prefix: each is announced in one way.
func (d Demotion) Compare(o Demotion) int { return comparePrefixes(d.Prefix, o.Prefix) }

// Plan holds the announcements of a machine, and the refusals. Sessions are sorted
// by router and address.
type Plan struct {
	Sessions  []SessionPlan
	Demotions sorted.List[Demotion]
	Refusals  sorted.List[Refusal]
}
