package provider

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/cluster"
)

// What the informers leave away of objects is nothing that an edit is held against: plinth, which lists them whole, says the
// same of it.
func TestTheControllerHoldsEditsAgainstWhatPlinthDoes(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	node, ready := "w1", true
	client := fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}, Spec: v1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24"}},
			Status: v1.NodeStatus{Images: []v1.ContainerImage{{SizeBytes: 1}}, Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.1.0.11"}}}},
		&v1.Service{ObjectMeta: named("kubernetes"), Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1", "fd00:96::1"}, ExternalIPs: []string{"192.0.2.7"}}},
		&v1.Service{ObjectMeta: named("web"), Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.2", ClusterIPs: []string{"10.96.0.2"}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}},
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := trim(factory); err != nil {
		t.Fatal(err)
	}
	r, err := cluster.New(claim.Client{Kube: client}, factory)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	got, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := factory.Core().V1().Nodes().Lister().Get(node); err != nil || len(kept.Status.Images)+len(kept.ManagedFields) > 0 {
		t.Errorf("of the Node is kept %+v (%v), and nobody reads its images and the fields of others", kept, err)
	}
	want, err := cluster.List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()); d != "" || len(want.Taken) != 7 {
		t.Errorf("%d addresses of the cluster; -plinth +controller:\n%s", len(want.Taken), d)
	}
}
