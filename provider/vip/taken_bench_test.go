package vip

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkPoolsAreSetAnew measures what a Node costs that takes something of a pool, in a cluster of 1,600 Nodes and 3,000 Services, and
// one that takes nothing.
func BenchmarkPoolsAreSetAnew(b *testing.B) {
	h := newHeldOf(&testing.T{}, "192.0.2.0/24")
	h.listened()
	for i := range 1600 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}, Spec: v1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00:%x::/64", i)}}}
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: fmt.Sprintf("10.200.%d.%d", i/256, i%256)}}
		_ = h.storeOf(n).Add(n)
	}
	for i := range 3000 {
		_ = h.known.Add(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: fmt.Sprint("s", i)}, Spec: v1.ServiceSpec{ClusterIPs: []string{fmt.Sprintf("10.96.%d.%d", i/256, i%256)}}})
	}
	node := func(cidr string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1"}, Spec: v1.NodeSpec{PodCIDRs: []string{cidr, "fd00:1::/64"}}}
	}
	takes := h.poolsChange(b.Context())
	for name, is := range map[string]*v1.Node{"heartbeat": node("10.0.1.0/24"), "elsewhere": node("10.0.2.0/24"), "taken": node("192.0.2.0/28")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				takes.OnUpdate(node("10.0.1.0/24"), is)
			}
		})
	}
}
