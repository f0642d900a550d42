package offers

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/endpoints"
)

// Service is a Service of the cluster, reduced to the fields that the agent needs.
type Service struct {
	Key          lb.ServiceKey
	UID          string
	LocalTraffic bool
	Frontend     advertise.Frontend
	Ours         bool             // no other program's class
	Labels       advertise.Labels // as far as the inventory's advertisements select by them
	Home         string           // the machine that is to answer for its VIPs on a link; empty: none was asked for
	Shown        []netip.Addr     // in its status, which kube-proxy goes by
}

// portsKept bounds how many ports of a Service are kept: one that has endpoints is enough.
const portsKept = 8

// ServiceOf keeps the labels of the given keys, which are sorted, and no others.
func ServiceOf(labels []string) func(any) Service {
	return func(obj any) Service {
		service := obj.(*corev1.Service)
		class := service.Spec.LoadBalancerClass
		return Service{
			Key: lb.ServiceKey{Namespace: service.Namespace, Name: service.Name}, UID: string(service.UID),
			LocalTraffic: service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal, Frontend: frontendOf(service),
			Ours:   service.Spec.Type == corev1.ServiceTypeLoadBalancer && (class == nil || lb.IsOurClass(*class)),
			Labels: advertise.LabelsOf(service.Labels, labels), Home: service.Annotations[lb.HomeAnnotation],
			Shown: endpoints.ShownBy(service),
		}
	}
}

func frontendOf(s *corev1.Service) advertise.Frontend {
	var ports []string
	for _, p := range s.Spec.Ports[:min(len(s.Spec.Ports), portsKept)] {
		ports = append(ports, fmt.Sprintf("%d/%s", p.Port, cmp.Or(p.Protocol, corev1.ProtocolTCP)))
	}
	return advertise.Frontend{Ports: strings.Join(ports, ","), HealthCheckPort: uint16(s.Spec.HealthCheckNodePort), Proxy: lb.ProxyOf(s.Labels)}
}

// Claim is an IPAddress, reduced to the fields that the agent needs: the holders of a VIP.
type Claim struct {
	VIP     netip.Addr
	Holders []lb.ServiceKey // the first is the parent
	UID     string          // of the parent; empty: not told
	Homes   string          // the machines that are to answer for it on a link, comma separated
	Owner   string          // the Node that answers for it on a link, as the claim says
	Unread  string          // why the object is not read, and this is what was known before; empty: it is
}

// ClaimOf reduces a *networkingv1.IPAddress to its holders; zero: it is none that can be a VIP.
func ClaimOf(obj any) Claim {
	ip := obj.(*networkingv1.IPAddress)
	vip, err := netip.ParseAddr(ip.Name)
	ref := ip.Spec.ParentRef
	if err != nil || vip.Is4In6() || vip.Zone() != "" || ref == nil || ref.Group != "" || ref.Resource != "services" {
		return Claim{}
	}
	claim := Claim{VIP: vip, UID: ip.Annotations[lb.ServiceUIDAnnotation], Homes: ip.Annotations[lb.HomesAnnotation], Owner: ip.Labels[lb.OwnerLabel]}
	claim.Holders = append(claim.Holders, lb.ServiceKey{Namespace: ref.Namespace, Name: ref.Name})
	for _, s := range strings.Split(ip.Annotations[lb.SharedByAnnotation], ",") {
		namespace, name, ok := strings.Cut(strings.TrimSpace(s), "/")
		if key := (lb.ServiceKey{Namespace: namespace, Name: name}); ok && !slices.Contains(claim.Holders, key) {
			claim.Holders = append(claim.Holders, key)
		}
	}
	return claim
}

// EndpointSlice is an EndpointSlice of the cluster, reduced to the fields that the agent needs.
type EndpointSlice struct {
	Service   lb.ServiceKey
	IPv4      bool
	Followers lb.Followers
	All       []Endpoint
}

// Endpoint is told apart by its address: while a slice is split, two list it.
type Endpoint struct {
	Addr netip.Addr
	Node unique.Handle[string] // thousands of endpoints are on the same few
	advertise.Endpoint
}

// EndpointSliceOf keeps the endpoints of a *discoveryv1.EndpointSlice, and which of them are on this Node.
func EndpointSliceOf(nodeName string) func(any) EndpointSlice {
	return func(obj any) EndpointSlice {
		s := endpoints.Of(obj.(*discoveryv1.EndpointSlice))
		out := EndpointSlice{Service: s.Service, IPv4: s.Family == lb.IPv4, Followers: s.Followers}
		for _, e := range s.All {
			e.Local = e.Node == nodeName
			out.All = append(out.All, Endpoint{e.Addr, unique.Make(e.Node), e.Endpoint})
		}
		return out
	}
}
