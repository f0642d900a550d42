package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/provider/cluster"
)

// objects are what an API server has of a datacenter of 1,600 machines: 3,000 Services with a VIP
// each, of which each third has local traffic, and 10,000 EndpointSlices with three endpoints.
func objects() (claims []*networkingv1.IPAddress, nodes []*v1.Node, services []*v1.Service, all []*discoveryv1.EndpointSlice) {
	for i := range 1600 {
		nodes = append(nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%04d", i)},
			Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}, {Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue}}},
		})
	}
	for i := range 3000 {
		name, vip := fmt.Sprintf("s%d", i), netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)}).String()
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u"}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer}}
		if i%3 == 0 {
			s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		}
		services = append(services, s)
		claims = append(claims, &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: vip, Labels: map[string]string{"ipaddress.kubernetes.io/managed-by": "plinth.dev"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: name}},
		})
	}
	ready := true
	for i := range 10000 {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("e%d", i), Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("s%d", i%3000)}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for j := range 3 {
			node := fmt.Sprintf("m%04d", (i*7+j*131)%1600)
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{netip.AddrFrom4([4]byte{10, 200 + byte(j), byte(i >> 8), byte(i)}).String()}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			})
		}
		all = append(all, s)
	}
	return claims, nodes, services, all
}

// large is a datacenter of 100 racks and 100 pools.
func large(b *testing.B, edits ...string) *inventory.Inventory {
	b.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  podNetwork: {mode: fabric, cidrs: [10.128.0.0/10]}\n  pools:\n")
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&text, "  - {name: inner%02d, addresses: [10.98.%d.0/24], advertise: {racks: [r%03d, r%03d]}}\n", i, i, i-1, i)
	}
	text.WriteString("  - {name: public, addresses: [10.99.0.0/16]}\n  racks:\n")
	for i := range 1600 {
		if i%16 == 0 {
			fmt.Fprintf(&text, "  - name: r%03d\n    routers: [{name: a%d, address: 172.16.%d.1, asn: 65101}, {name: b%d, address: 172.16.%d.2, asn: 65101}]\n    machines:\n", i/16, i/16, i/16, i/16, i/16)
		}
		fmt.Fprintf(&text, "    - {name: m%04d, addresses: [172.16.%d.%d]}\n", i, i/16, i%16+10)
	}
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(strings.NewReplacer(edits...).Replace(text.String()))})
	if inv == nil {
		b.Fatal(problems)
	}
	return inv
}

// BenchmarkDiff is plinth diff cluster from the moment that the lists are there: what acceptance
// does with an edit is part of it.
func BenchmarkDiff(b *testing.B) {
	claims, nodes, services, slices := objects()
	before, _ := edit.Admit(large(b), nil)
	proposed := large(b, "10.99.0.0/16", "10.99.0.0/21")
	for b.Loop() {
		now, err := cluster.Of(claims, nodes, services, slices)
		if err != nil {
			b.Fatal(err)
		}
		after, _ := edit.Admit(proposed, before)
		d := difference{Difference: edit.Diff(before, after), judgement: judge(before, after, &now)}
		if len(d.losses.Unreachable) != 3000-2048 || len(d.Pools) != 1 {
			b.Fatalf("%d are lost, %v", len(d.losses.Unreachable), d.Pools)
		}
	}
}
