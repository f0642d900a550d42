package offers

import (
	"net/netip"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func ptr[T any](v T) *T { return &v }

func TestClaimNamesItsHolders(t *testing.T) {
	parent := &networkingv1.ParentReference{Resource: "services", Namespace: "prod", Name: "web"}
	tests := []struct {
		name string
		ip   networkingv1.IPAddress
		want Claim
	}{
		{"the parent is the holder", networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.5", Annotations: map[string]string{lb.ServiceUIDAnnotation: "1"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: parent},
		}, Claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web")}, UID: "1"}},
		{"those that share it are holders too", networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.5", Annotations: map[string]string{lb.SharedByAnnotation: "prod/dns,prod/web"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: parent},
		}, Claim{VIP: vip("203.0.113.5"), Holders: []lb.ServiceKey{key("web"), key("dns")}}},
		{"an address in IPv4-mapped form is none", networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: "::ffff:203.0.113.5"}, Spec: networkingv1.IPAddressSpec{ParentRef: parent},
		}, Claim{}},
		{"a claim of something else is none", networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.5"},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Name: "web"}},
		}, Claim{}},
		{"a claim of nobody is none", networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.5"}}, Claim{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, ClaimOf(&tt.ip), addresses); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestEndpointsAreSeenAsKubeProxySeesThem(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "prod", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, NodeName: ptr("w1")},
			{Addresses: []string{"10.0.0.2"}, NodeName: ptr("w2"), Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}},
			{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false)}},
			{Addresses: nil},
		},
	}
	want := EndpointSlice{Service: key("web"), IPv4: true, All: []Endpoint{
		{vip("10.0.0.1"), unique.Make("w1"), advertise.Endpoint{Local: true, Ready: true, Serving: true}},
		{vip("10.0.0.2"), unique.Make("w2"), advertise.Endpoint{Serving: true, Terminating: true}},
		{vip("10.0.0.3"), unique.Make(""), advertise.Endpoint{}},
	}}
	if d := cmp.Diff(want, EndpointSliceOf("w1")(slice), addresses, cmp.Comparer(func(a, b unique.Handle[string]) bool { return a == b })); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestServiceIsOursWithNoClassOrOurs(t *testing.T) {
	for class, want := range map[*string]bool{nil: true, ptr(lb.LoadBalancerClass): true, ptr("example.com/other"): false} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class}}
		if got := ServiceOf(nil)(s).Ours; got != want {
			t.Errorf("class %v: ours %v, want %v", class, got, want)
		}
	}
}
