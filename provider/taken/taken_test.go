package taken

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "d", Name: name} }

func told(all []lb.Taken) (out []string) {
	for _, t := range all {
		out = append(out, t.Prefix.String()+" "+t.Who)
	}
	return out
}

func TestWhatEachObjectHas(t *testing.T) {
	node := func(podCIDR string, podCIDRs []string, addresses ...v1.NodeAddress) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: v1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: podCIDRs}, Status: v1.NodeStatus{Addresses: addresses}}
	}
	service := func(spec v1.ServiceSpec) *v1.Service { return &v1.Service{ObjectMeta: named("web"), Spec: spec} }
	for _, c := range []struct {
		what string
		obj  any
		want []string
	}{
		{"a Node that has nothing yet", node("", nil), nil},
		{"pod CIDRs of both families", node("10.244.1.0/24", []string{"10.244.1.0/24", "fd00:244:1::/64"}), []string{"10.244.1.0/24 the pods of node w1", "fd00:244:1::/64 the pods of node w1"}},
		{"one alone", node("10.244.1.0/24", nil), []string{"10.244.1.0/24 the pods of node w1"}},
		{"host bits and zeros in front", node("", []string{"010.244.1.7/24"}), []string{"10.244.1.0/24 the pods of node w1"}},
		{"what is no CIDR", node("", []string{"10.244.1.0", "x"}), nil},
		{"addresses", node("", nil, v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.1.0.1"}, v1.NodeAddress{Type: v1.NodeExternalIP, Address: "2001:DB8::1"}), []string{"10.1.0.1/32 node w1", "2001:db8::1/128 node w1"}},
		{"names", node("", nil, v1.NodeAddress{Type: v1.NodeHostName, Address: "10.1.0.1"}, v1.NodeAddress{Type: v1.NodeInternalDNS, Address: "w1"}), nil},
		{"a mapped address", node("", nil, v1.NodeAddress{Type: v1.NodeInternalIP, Address: "::ffff:10.1.0.1"}), []string{"10.1.0.1/32 node w1"}},
		{"a Service", service(v1.ServiceSpec{ClusterIPs: []string{"10.96.0.1", "fd00::1"}, ExternalIPs: []string{"192.0.2.1"}}),
			[]string{"10.96.0.1/32 service d/web inside the cluster", "fd00::1/128 service d/web inside the cluster", "192.0.2.1/32 the externalIPs of service d/web"}},
		{"a headless one", service(v1.ServiceSpec{ClusterIPs: []string{v1.ClusterIPNone}}), nil},
		{"a VIP", &v1.Service{ObjectMeta: named("web"), Status: v1.ServiceStatus{LoadBalancer: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}}}}, nil},
		{"a ServiceCIDR", &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00:96::/112"}}},
			[]string{"10.96.0.0/16 ServiceCIDR kubernetes", "fd00:96::/112 ServiceCIDR kubernetes"}},
		{"something else", &v1.Pod{}, nil},
	} {
		if got := told(By(c.obj)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if got := told(By(cache.DeletedFinalStateUnknown{Obj: c.obj})); !slices.Equal(got, c.want) {
			t.Errorf("%s, which it was missed that it went: %q", c.what, got)
		}
	}
}

func TestWhatIsTakenIsTheSameInAnyOrder(t *testing.T) {
	nodes := []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "10.244.0.0/16"}}}}
	services := []*v1.Service{{ObjectMeta: named("web"), Spec: v1.ServiceSpec{ExternalIPs: []string{"10.244.1.7"}}}, {ObjectMeta: named("api"), Spec: v1.ServiceSpec{ExternalIPs: []string{"10.244.1.7"}}}}
	got := told(In(nodes, services, nil, Everything))
	want := []string{"10.244.0.0/16 the pods of node a", "10.244.1.0/24 the pods of node a", "10.244.1.0/24 the pods of node b",
		"10.244.1.7/32 the externalIPs of service d/api", "10.244.1.7/32 the externalIPs of service d/web"}
	slices.Reverse(nodes)
	slices.Reverse(services)
	if again := told(In(nodes, services, nil, Everything)); !slices.Equal(got, want) || !slices.Equal(again, want) {
		t.Errorf("%q, in another order %q, want %q", got, again, want)
	}
}
