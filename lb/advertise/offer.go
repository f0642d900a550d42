package advertise

import (
	"net/netip"
	"plinth.dev/plinth/lb"
)

// Endpoints counts the endpoints of a Service that can take traffic, as
// kube-proxy sees them: ready ones, or, where a place has none of these, those
// that still serve while they terminate (KEP-1669).
type Endpoints struct {
	Local int // on this machine
	Any   int // on all machines, this one included
	// Terminating says that those of this machine serve while they terminate, and that
	// others are ready elsewhere.
	Terminating bool `json:",omitempty"`
}

// Offer is one VIP of a Service, as a machine sees it when it decides what to announce.
type Offer struct {
	Service      lb.ServiceKey
	VIP          netip.Addr // held by this Service's IPAddress object, whatever its status says
	LocalTraffic bool       // externalTrafficPolicy: Local
	Endpoints    Endpoints  // of the VIP's family
}

// Compare sorts by VIP and, where several share it, by Service.
func (o Offer) Compare(p Offer) int {
	if c := o.VIP.Compare(p.VIP); c != 0 {
		return c
	}
	return o.Service.Compare(p.Service)
}
