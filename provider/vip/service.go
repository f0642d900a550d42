package vip

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/endpoints"
)

// ofOurClass reports whether a Service is of Plinth's class.
func ofOurClass(svc *v1.Service) bool {
	return svc.Spec.Type == v1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass != nil && lb.IsOurClass(*svc.Spec.LoadBalancerClass)
}

// classless reports whether a Service is for the cluster's default load balancer.
func classless(svc *v1.Service) bool {
	return svc.Spec.Type == v1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

// isOurs reports whether a Service is Plinth's to answer. The stock controller asks for none
// that has a class.
func (b *environment) isOurs(svc *v1.Service) bool {
	return svc.DeletionTimestamp == nil && (ofOurClass(svc) && !b.byStock || classless(svc) && !b.options.ClassOnly)
}

// requestOf returns all that a Service says about its VIPs.
func requestOf(svc *v1.Service) ipam.Request {
	ask, sharing := ipam.AskOf(svc.Annotations, svc.Spec.LoadBalancerIP)
	return ipam.Request{
		Holder:  ipam.Holder{Service: keyOf(svc), Sharing: sharing, Ports: portsOf(svc), Backends: backendsOf(svc)},
		Ask:     ask,
		Want:    wantOf(svc),
		Labels:  svc.Labels,
		UID:     string(svc.UID),
		Created: svc.CreationTimestamp.Time,
		Shown:   endpoints.ShownBy(svc),
	}
}

// asksTheSame reports whether a Service asks for the same as when it was read before, whatever
// its status shows.
func asksTheSame(before, now ipam.Request) bool {
	before.Shown, now.Shown = nil, nil
	before.Created, now.Created = time.Time{}, time.Time{} // which may be in another time zone
	return reflect.DeepEqual(before, now)
}

// wantOf reads the families. The API server has filled them in by its own rules: a
// single-stack cluster leaves one, whatever the policy.
func wantOf(svc *v1.Service) ipam.Want {
	var families []lb.Family
	for _, f := range svc.Spec.IPFamilies {
		switch f {
		case v1.IPv4Protocol:
			families = append(families, lb.IPv4)
		case v1.IPv6Protocol:
			families = append(families, lb.IPv6)
		default: // none that an address could be of
		}
	}
	switch {
	case len(families) == 0:
		return ipam.Want{First: lb.IPv4}
	case len(families) == 1:
		return ipam.Want{First: families[0]}
	}
	policy := svc.Spec.IPFamilyPolicy
	prefers := policy != nil && *policy == v1.IPFamilyPolicyPreferDualStack
	return ipam.Want{First: families[0], Second: families[1], Optional: prefers}
}

func portsOf(svc *v1.Service) []ipam.Port {
	ports := make([]ipam.Port, 0, len(svc.Spec.Ports))
	for _, p := range svc.Spec.Ports {
		ports = append(ports, ipam.Port{Protocol: string(cmp.Or(p.Protocol, v1.ProtocolTCP)), Number: uint16(p.Port)})
	}
	slices.SortFunc(ports, ipam.Port.Compare)
	return ports
}

// backendsOf names the endpoints that decide which machines announce a Service;
// empty where any machine may. Without a selector they are its own and nobody else's.
func backendsOf(svc *v1.Service) string {
	switch {
	case !servicehelper.RequestsOnlyLocalTraffic(svc):
		return ""
	case len(svc.Spec.Selector) == 0:
		return "endpoints of " + svc.Name
	}
	return labels.Set(svc.Spec.Selector).String()
}

// ingressOf returns the ingress that the status of a Service with these VIPs has. It sets every field that
// the API server would fill in: two that are compared must not differ by a default.
func ingressOf(vips []netip.Addr) []v1.LoadBalancerIngress {
	var all []v1.LoadBalancerIngress
	for _, a := range vips {
		all = append(all, v1.LoadBalancerIngress{IP: a.String(), IPMode: new(v1.LoadBalancerIPModeVIP)})
	}
	return all
}

func sameIngress(svc *v1.Service, want []v1.LoadBalancerIngress) bool {
	return apiequality.Semantic.DeepEqual(svc.Status.LoadBalancer.Ingress, want)
}

// served reports whether a Service that is not Plinth's to serve was so before.
func (b *environment) served(svc *v1.Service) bool {
	ours := ofOurClass(svc) || classless(svc) && !b.options.ClassOnly
	return ours || meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) != nil
}
