package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/ipam"
)

const (
	kubeVIPPrefix = "kube-vip.io/"
	kubeVIPHost   = kubeVIPPrefix + "vipHost"
)

// readServices notes what Services ask of kube-vip that they do not get of Plinth, and addresses that no pool has.
func (r *kubeVIPReader) readServices() {
	for _, o := range r.of("", "Service") {
		o.mark(meaningless, "metadata.name")
		if o.text("spec.type") != string(corev1.ServiceTypeLoadBalancer) || !ofKubeVIP(o) {
			o.mark(meaningless, "")
			continue
		}
		o.markIdle()
		if s, ok := decode[corev1.Service](r.draft, o); ok {
			r.service(o, s)
		}
	}
}

// ofKubeVIP reports whether kube-vip is asked for something.
func ofKubeVIP(o *object) bool {
	return strings.HasPrefix(o.text("spec.loadBalancerClass"), kubeVIPPrefix) ||
		slices.ContainsFunc(o.leaves(), func(l leaf) bool { return strings.HasPrefix(l.path, "metadata.annotations["+kubeVIPPrefix) })
}

func (r *kubeVIPReader) service(o *object, s *corev1.Service) {
	for _, ignored := range ipam.IgnoredAnnotations(s.Annotations) {
		if strings.HasPrefix(ignored.Annotation, kubeVIPPrefix) {
			path := join("metadata.annotations", ignored.Annotation)
			o.mark(noted, path)
			r.note(o, path, NoCounterpart, ignored.Why)
		}
	}
	if r.otherClass(o, s) {
		return
	}
	path, addrs := askedAddresses(s)
	if len(addrs) == 0 {
		path = "status"
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			if a, err := netip.ParseAddr(ingress.IP); err == nil {
				addrs = append(addrs, a)
			}
		}
	}
	for _, a := range addrs {
		if !r.gives(a, o.namespace) {
			o.mark(noted, path)
			r.note(o, path, ByHand, fmt.Sprintf("%v lies in no pool that the Service may use: add it to one, or Plinth does not keep it", a))
		}
	}
	r.home(o, s)
}

// otherClass notes a class that Plinth does not answer, and reports whether the Service has one.
func (d *draft) otherClass(o *object, s *corev1.Service) bool {
	o.mark(meaningless, "spec.loadBalancerClass", "spec.loadBalancerIP") // Plinth reads them of the Service
	class := s.Spec.LoadBalancerClass
	if class == nil || *class == "plinth.dev/bgp" {
		return false
	}
	o.mark(noted, "spec.loadBalancerClass")
	d.note(o, "spec.loadBalancerClass", ByHand, fmt.Sprintf("Plinth does not answer class %s, and the class of a Service cannot be changed: make it again, with loadBalancerClass plinth.dev/bgp or without one", *class))
	return true
}

// askedAddresses are those that a Service asks Plinth for, and where it says so.
func askedAddresses(s *corev1.Service) (path string, addrs []netip.Addr) {
	if ask, _ := ipam.AskOf(s.Annotations, ""); len(ask.Addrs) > 0 {
		return "metadata.annotations", ask.Addrs
	}
	ask, _ := ipam.AskOf(nil, s.Spec.LoadBalancerIP)
	return "spec.loadBalancerIP", ask.Addrs
}

// gives reports whether a pool has an address for Services of a namespace.
func (r *kubeVIPReader) gives(a netip.Addr, namespace string) bool {
	return slices.ContainsFunc(r.inv.Pools, func(p inventory.Pool) bool { return p.Contains(a) && p.AllowsNamespace(namespace, nil) })
}

// home tells how the machine that has a VIP of a link now goes on to have it.
func (r *kubeVIPReader) home(o *object, s *corev1.Service) {
	host := s.Annotations[kubeVIPHost]
	if host == "" || !slices.ContainsFunc(r.inv.Pools, func(p inventory.Pool) bool { return p.Via == inventory.ViaLink }) {
		return
	}
	path := join("metadata.annotations", kubeVIPHost)
	o.mark(noted, path)
	r.note(o, path, ByHand, fmt.Sprintf("for the VIP to stay where it is: kubectl -n %s annotate service %s plinth.dev/home=%s", s.Namespace, s.Name, host))
}
