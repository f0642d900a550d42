package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

const (
	proxyNameLabel = "service.kubernetes.io/service-proxy-name"
	headlessLabel  = "service.kubernetes.io/headless"
)

// exposed is a Service with one VIP and one ready endpoint, as an agent of nuc1 follows them.
type exposed struct{ catalog *catalog }

func newExposed() *exposed {
	f := &exposed{catalog: newCatalog()}
	f.catalog.claimChanged("", nil, &claim{VIP: askedVIP, Holders: []lb.ServiceKey{key("web")}, UID: "1"})
	return f
}

// labelled has a Service and its EndpointSlice bear labels, and returns its offer.
func (f *exposed) labelled(ofService, ofSlice map[string]string) advertise.Offer {
	s := reduceService(nil)(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web", UID: "1", Labels: ofService},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: askedVIP.String()}}}},
	})
	labels := map[string]string{discoveryv1.LabelServiceName: "web"}
	for k, v := range ofSlice {
		labels[k] = v
	}
	slice := reduceSlice("nuc1")(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.9"}, NodeName: ptr("nuc1")}},
	})
	f.catalog.serviceChanged("prod/web", nil, &s)
	f.catalog.sliceChanged("prod/web-1", nil, &slice)
	o, _ := f.catalog.all().Next(advertise.Offer{VIP: askedVIP})
	return o
}

func TestAnEndpointSliceThatTheProxyOfAServiceDoesNotFollowDoesNotCount(t *testing.T) {
	other, headless := map[string]string{proxyNameLabel: "other"}, map[string]string{headlessLabel: ""}
	for _, tt := range []struct {
		what           string
		service, slice map[string]string
		counts         bool
	}{
		{"neither is labelled", nil, nil, true},
		{"the slice is of another proxy", nil, other, false},
		{"the slice is of a headless Service", nil, headless, false},
		{"both are of another proxy", other, other, true},
		{"a Service of another proxy, and a slice that nobody has labelled yet", other, nil, true},
		{"a Service of another proxy, and a slice of a headless one", other, headless, false},
		{"a Service that is labelled headless", headless, nil, true},
		{"a Service and a slice that are labelled headless", headless, headless, false},
	} {
		o := newExposed().labelled(tt.service, tt.slice)
		if counts := o.Endpoints.Any == 1 && o.Endpoints.Local == 1; counts != tt.counts {
			t.Errorf("%s: %+v", tt.what, o.Endpoints)
		}
	}
}
