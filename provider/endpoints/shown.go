package endpoints

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// ShownBy returns the addresses that the status of a Service shows: kube-proxy has rules for these, whoever wrote them there.
func ShownBy(svc *v1.Service) (all []netip.Addr) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil {
			all = append(all, a)
		}
	}
	return all
}
