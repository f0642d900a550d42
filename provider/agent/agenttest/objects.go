package agenttest

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

// RackNode is the Node w1, w2 and so on, created in the order of age.
func RackNode(name, cidr string, age int64) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{inventory.LabelRack: "r1"}, CreationTimestamp: metav1.Unix(age, 0)},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: strings.Replace(name, "w", "10.1.0.1", 1)},
		}},
	}
}

// NewerFormat is a format of the inventory that this version does not read.
var NewerFormat = strconv.Itoa(document.ReadsFormat + 1)

// Newer is the word about a ConfigMap that a newer version stored.
func Newer() error {
	return inventory.CheckFormat("configmap plinth-accepted", map[string]string{inventory.AnnotationFormat: NewerFormat}, document.ReadsFormat)
}

// ClaimObject is the claim of a Service of namespace d, of a format; empty: the first.
func ClaimObject(vip, service, format string) *networkingv1.IPAddress {
	o := &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "d", Name: service}}}
	o.ObjectMeta = metav1.ObjectMeta{Name: vip, Annotations: map[string]string{}}
	if format != "" {
		o.Annotations[inventory.AnnotationFormat] = format
	}
	return o
}

// Served is Service web with its claim and an endpoint.
func Served() []runtime.Object {
	web := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	web.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: "web", Labels: map[string]string{"tier": "gold", "team": "a", "site": "b"}}
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}}}}
	slice.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	ip := ClaimObject("203.0.113.7", "web", "")
	ip.Labels = map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy}
	return []runtime.Object{RackNode("w1", "10.244.0.0/24", 1), web, slice, ip}
}
