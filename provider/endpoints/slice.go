package endpoints

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Slice is what matters of an EndpointSlice. Its zero value is of no Service.
type Slice struct {
	Service   lb.ServiceKey
	Family    lb.Family
	Followers lb.Followers // the proxies that know of its endpoints
	All       []Endpoint
}

// Endpoint is told apart by its address: while a slice is split, two list it.
type Endpoint struct {
	Addr netip.Addr
	Node string // empty: not told
	advertise.Endpoint
}

// LabelsRead are those of an EndpointSlice's labels that [Of] reads.
func LabelsRead(s *discoveryv1.EndpointSlice) map[string]string {
	read := map[string]string{}
	for _, key := range []string{discoveryv1.LabelServiceName, lb.ServiceProxyLabel, lb.HeadlessLabel} {
		if v, has := s.Labels[key]; has {
			read[key] = v
		}
	}
	return read
}

// Of reads an EndpointSlice.
func Of(s *discoveryv1.EndpointSlice) Slice {
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return Slice{}
	}
	out := Slice{Service: lb.ServiceKey{Namespace: s.Namespace, Name: name}, Family: lb.IPv6, Followers: lb.FollowersOf(s.Labels)}
	if s.AddressType == discoveryv1.AddressTypeIPv4 {
		out.Family = lb.IPv4
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(e.Addresses[0])
		if err != nil {
			continue
		}
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		one := Endpoint{Addr: addr, Endpoint: advertise.Endpoint{
			Ready:       ready,
			Serving:     e.Conditions.Serving == nil && ready || e.Conditions.Serving != nil && *e.Conditions.Serving,
			Terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
		}}
		if e.NodeName != nil {
			one.Node = *e.NodeName
		}
		out.All = append(out.All, one)
	}
	return out
}
