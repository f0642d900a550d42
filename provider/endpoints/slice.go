package endpoints

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Slice is an EndpointSlice, reduced to its Service, family and endpoints. Its zero value is of no Service.
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

// LabelsRead returns the labels of an EndpointSlice that [Of] reads.
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
func Of(slice *discoveryv1.EndpointSlice) Slice {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if name == "" || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return Slice{}
	}
	out := Slice{Service: lb.ServiceKey{Namespace: slice.Namespace, Name: name}, Family: lb.IPv6, Followers: lb.FollowersOf(slice.Labels)}
	if slice.AddressType == discoveryv1.AddressTypeIPv4 {
		out.Family = lb.IPv4
	}
	for _, endpoint := range slice.Endpoints {
		if len(endpoint.Addresses) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(endpoint.Addresses[0])
		if err != nil {
			continue
		}
		ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		one := Endpoint{Addr: addr, Endpoint: advertise.Endpoint{
			Ready:       ready,
			Serving:     endpoint.Conditions.Serving == nil && ready || endpoint.Conditions.Serving != nil && *endpoint.Conditions.Serving,
			Terminating: endpoint.Conditions.Terminating != nil && *endpoint.Conditions.Terminating,
		}}
		if endpoint.NodeName != nil {
			one.Node = *endpoint.NodeName
		}
		out.All = append(out.All, one)
	}
	return out
}
