package advertise

import (
	"net/netip"
	"strings"

	"plinth.dev/plinth/lb"
)

// Endpoints counts the endpoints of a Service that can take traffic, as
// kube-proxy sees them: ready ones, or, where a place has none of these, those
// that still serve while they terminate (KEP-1669).
type Endpoints struct {
	Local int // on this machine
	Any   int // on all machines, this one included
	// Terminating: the endpoints of this machine serve while they terminate, and
	// others are ready elsewhere.
	Terminating bool `json:",omitempty"`
	// Ready: an endpoint of this machine is ready.
	Ready bool `json:",omitempty"`
	// NotFollowed: there is none, and some would be there if the Service's proxy followed their EndpointSlices.
	NotFollowed bool `json:",omitempty"`
}

// Frontend holds the ports and the proxy of a Service, as far as they matter to find out whether
// kube-proxy has its rules. It compares with ==.
type Frontend struct {
	Ports           string // its first ones, as "80/TCP,443/TCP"; empty: not known
	HealthCheckPort uint16 // where kube-proxy says how many endpoints are ready; 0: nowhere
	Shown           bool   `json:",omitempty"` // the Service's status shows the VIP: kube-proxy serves no other
	// Proxy serves the Service. Older agents wrote none, and asked kube-proxy.
	Proxy lb.Proxy `json:",omitempty"`
}

// Labels are labels of a Service as kubectl prints them: key=value, comma separated, sorted
// by key. They compare with ==. Empty: there are none, or no selector uses any.
type Labels string

// LabelsOf returns the labels of a Service that have one of the keys, which are sorted.
func LabelsOf(labels map[string]string, keys []string) Labels {
	var all []string
	for _, k := range keys {
		if v, ok := labels[k]; ok {
			all = append(all, k+"="+v)
		}
	}
	return Labels(strings.Join(all, ","))
}

// Map returns the labels by their keys.
func (l Labels) Map() map[string]string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(string(l), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			all[k] = v
		}
	}
	return all
}

// OnLink holds the facts that all machines of a link have to know alike of a VIP that one of them answers for. Lists are
// comma separated, so that it compares with ==.
type OnLink struct {
	Homes string `json:",omitempty"` // machines in the controller's order
	Home  string `json:",omitempty"` // the machine that the Service asks for
	At    string `json:",omitempty"` // with local traffic, sorted: the machines with an endpoint that can take traffic
}

// Offer is one VIP of a Service, as a machine sees it when it decides what to announce.
type Offer struct {
	Service      lb.ServiceKey
	VIP          netip.Addr // held by this Service's IPAddress object, whatever its status says
	LocalTraffic bool       // externalTrafficPolicy: Local
	Endpoints    Endpoints  // of the VIP's family
	Frontend     Frontend
	Labels       Labels // of the Service, as far as advertisements select by them
	Link         OnLink // what only VIPs on a link have
	RulesPending bool   // kube-proxy on this machine may not have the rules for it yet: see [Gate]
	RulesLost    bool   // it had them, and they are gone; RulesPending, too
	RulesSeen    bool   // it had them when it was last asked
}

// Compare sorts by VIP and, where several share it, by Service.
func (o Offer) Compare(p Offer) int {
	if c := o.VIP.Compare(p.VIP); c != 0 {
		return c
	}
	return o.Service.Compare(p.Service)
}
