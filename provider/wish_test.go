package provider

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// appliedNode is a Node as the API server gives it back after Plinth applied to it.
func appliedNode() *v1.Node {
	n := &v1.Node{}
	n.Name, n.UID, n.ResourceVersion = "w1", "u1", "7"
	n.Labels = map[string]string{"plinth.dev/rack": "r01", "topology.kubernetes.io/zone": "a", "example.com/theirs": "x"}
	n.Spec.ProviderID = "plinth://SN-1"
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.0.0/24", []string{"10.244.0.0/24", "fd00:244::/64"}
	n.Spec.Taints = []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoSchedule}}
	n.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:example.com/theirs":{}}}}`)}},
		{Manager: fieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:plinth.dev/rack":{},"f:topology.kubernetes.io/zone":{}}},
				"f:spec":{"f:podCIDR":{},"f:podCIDRs":{"v:\"10.244.0.0/24\"":{},"v:\"fd00:244::/64\"":{}},"f:providerID":{},"f:taints":{}}}`)}},
	}
	return n
}

func BenchmarkPatchOfANodeThatIsAsWished(b *testing.B) {
	n := appliedNode()
	w := wish{labels: map[string]string{"plinth.dev/rack": "r01", "topology.kubernetes.io/zone": "a"}, taints: []inventory.Taint{}, providerID: "plinth://SN-1"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := w.patch(n); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
