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
	for _, object := range r.of("", "Service") {
		object.mark(meaningless, "metadata.name")
		if object.text("spec.type") != string(corev1.ServiceTypeLoadBalancer) || !ofKubeVIP(object) {
			object.mark(meaningless, "")
			continue
		}
		object.markIdle()
		if s, ok := decode[corev1.Service](r.draft, object); ok {
			r.service(object, s)
		}
	}
}

// ofKubeVIP reports whether kube-vip is asked for something.
func ofKubeVIP(o *object) bool {
	return strings.HasPrefix(o.text("spec.loadBalancerClass"), kubeVIPPrefix) ||
		slices.ContainsFunc(o.leaves(), func(l leaf) bool { return strings.HasPrefix(l.path, "metadata.annotations["+kubeVIPPrefix) })
}

func (r *kubeVIPReader) service(object *object, service *corev1.Service) {
	for _, ignored := range ipam.IgnoredAnnotations(service.Annotations) {
		if strings.HasPrefix(ignored.Annotation, kubeVIPPrefix) {
			r.markAndNote(object, join("metadata.annotations", ignored.Annotation), NoCounterpart, ignored.Why)
		}
	}
	if r.otherClass(object, service) {
		return
	}
	path, addrs := askedAddresses(service)
	if len(addrs) == 0 {
		path = "status"
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if a, err := netip.ParseAddr(ingress.IP); err == nil {
				addrs = append(addrs, a)
			}
		}
	}
	for _, a := range addrs {
		if !r.gives(a, object.namespace) {
			r.markAndNote(object, path, ByHand, fmt.Sprintf("%v lies in no pool that the Service may use: add it to one, or Plinth does not keep it", a))
		}
	}
	r.home(object, service)
}

// otherClass notes a class that Plinth does not answer, and reports whether the Service has one.
func (d *draft) otherClass(object *object, s *corev1.Service) bool {
	object.mark(meaningless, "spec.loadBalancerClass", "spec.loadBalancerIP") // Plinth reads them of the Service
	class := s.Spec.LoadBalancerClass
	if class == nil || *class == "plinth.dev/bgp" {
		return false
	}
	d.markAndNote(object, "spec.loadBalancerClass", ByHand, fmt.Sprintf("Plinth does not answer class %s, and the class of a Service cannot be changed: make it again, with loadBalancerClass plinth.dev/bgp or without one", *class))
	return true
}

// askedAddresses returns the addresses that a Service asks Plinth for, and the path of the field with them.
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

// home notes the way in which the machine that has a VIP of a link now keeps it.
func (r *kubeVIPReader) home(object *object, service *corev1.Service) {
	host := service.Annotations[kubeVIPHost]
	if host == "" || !slices.ContainsFunc(r.inv.Pools, func(p inventory.Pool) bool { return p.Via == inventory.ViaLink }) {
		return
	}
	r.markAndNote(object, join("metadata.annotations", kubeVIPHost), ByHand, fmt.Sprintf("for the VIP to stay where it is: kubectl -n %s annotate service %s plinth.dev/home=%s", service.Namespace, service.Name, host))
}
