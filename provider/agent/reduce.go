package agent

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

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/endpoints"
	"plinth.dev/plinth/routing"
)

// shuttingDown is what a kubelet says of a Node that is not ready because its machine is
// about to go (KEP-2000, graceful node shutdown), among other reasons if there are any.
const shuttingDown = "node is shutting down"

func reduceNode(obj any) plan.Node {
	n := obj.(*corev1.Node)
	_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
	out := plan.Node{
		Node: routing.Node{
			Name: n.Name, ProviderID: n.Spec.ProviderID, Rack: n.Labels[inventory.LabelRack], Created: n.CreationTimestamp.UTC(),
			Addresses: internalAddresses(n), PodCIDRs: routing.ParsePodCIDRs(n.Spec.PodCIDRs),
		},
		Identity: inventory.NodeIdentity{ProviderID: n.Spec.ProviderID, SystemUUID: inventory.ReportedUUID(n.Status.NodeInfo.SystemUUID), Name: n.Name},
		Excluded: excluded,
	}
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case lb.FabricReady:
			out.Condition = plan.Condition{Ready: c.Status, Reason: c.Reason, Message: c.Message}
		case corev1.NodeReady:
			out.ShuttingDown = c.Status == corev1.ConditionFalse && strings.Contains(c.Message, shuttingDown)
		default: // the kubelet's, or a stranger's
		}
	}
	return out
}

// reduceOther is reduceNode for the Nodes of other machines: their conditions and
// labels are none of our business.
func reduceOther(obj any) *routing.Node {
	n := reduceNode(obj).Node
	return &n
}

func internalAddresses(n *corev1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// service is what the agent needs of a Service.
type service struct {
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

// reduceService keeps the labels of the given keys, which are sorted, and no others.
func reduceService(labels []string) func(any) service {
	return func(obj any) service {
		s := obj.(*corev1.Service)
		class := s.Spec.LoadBalancerClass
		return service{
			Key: lb.ServiceKey{Namespace: s.Namespace, Name: s.Name}, UID: string(s.UID),
			LocalTraffic: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal, Frontend: frontendOf(s),
			Ours:   s.Spec.Type == corev1.ServiceTypeLoadBalancer && (class == nil || lb.IsOurClass(*class)),
			Labels: advertise.LabelsOf(s.Labels, labels), Home: s.Annotations[lb.HomeAnnotation],
			Shown: endpoints.ShownBy(s),
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

// claim is what the agent needs of an IPAddress: who holds which VIP.
type claim struct {
	VIP     netip.Addr
	Holders []lb.ServiceKey // the first is the parent
	UID     string          // of the parent; empty: not told
	Homes   string          // the machines that are to answer for it on a link, comma separated
	Owner   string          // the Node that answers for it on a link, as the claim says
	Unread  string          // why the object is not read, and this is what was known before; empty: it is
}

func reduceClaim(obj any) claim {
	ip := obj.(*networkingv1.IPAddress)
	vip, err := netip.ParseAddr(ip.Name)
	ref := ip.Spec.ParentRef
	if err != nil || vip.Is4In6() || vip.Zone() != "" || ref == nil || ref.Group != "" || ref.Resource != "services" {
		return claim{}
	}
	c := claim{VIP: vip, UID: ip.Annotations[lb.ServiceUIDAnnotation], Homes: ip.Annotations[lb.HomesAnnotation], Owner: ip.Labels[lb.OwnerLabel]}
	c.Holders = append(c.Holders, lb.ServiceKey{Namespace: ref.Namespace, Name: ref.Name})
	for _, s := range strings.Split(ip.Annotations[lb.SharedByAnnotation], ",") {
		namespace, name, ok := strings.Cut(strings.TrimSpace(s), "/")
		if key := (lb.ServiceKey{Namespace: namespace, Name: name}); ok && !slices.Contains(c.Holders, key) {
			c.Holders = append(c.Holders, key)
		}
	}
	return c
}

// endpointSlice is what the agent needs of an EndpointSlice.
type endpointSlice struct {
	Service   lb.ServiceKey
	IPv4      bool
	Followers lb.Followers
	All       []endpoint
}

// endpoint is told apart by its address: while a slice is split, two list it.
type endpoint struct {
	Addr netip.Addr
	Node unique.Handle[string] // thousands of endpoints are on the same few
	advertise.Endpoint
}

func reduceSlice(nodeName string) func(any) endpointSlice {
	return func(obj any) endpointSlice {
		s := endpoints.Of(obj.(*discoveryv1.EndpointSlice))
		out := endpointSlice{Service: s.Service, IPv4: s.Family == lb.IPv4, Followers: s.Followers}
		for _, e := range s.All {
			e.Local = e.Node == nodeName
			out.All = append(out.All, endpoint{e.Addr, unique.Make(e.Node), e.Endpoint})
		}
		return out
	}
}

// reduceSecret keeps the values of a Secret: the agent follows only those that the
// inventory takes passwords from.
func reduceSecret(obj any) map[string][]byte { return obj.(*corev1.Secret).Data }
