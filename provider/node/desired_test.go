package node

import (
	"encoding/json"
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// appliedNode is a Node as the API server gives it back after Plinth applied to it.
func appliedNode() *v1.Node {
	n := &v1.Node{}
	n.Name, n.UID, n.ResourceVersion = "w1", "u1", "7"
	n.Labels = map[string]string{labelTaints: "0", "plinth.dev/rack": "r01", "topology.kubernetes.io/zone": "a", "example.com/theirs": "x"}
	n.Spec.ProviderID = "plinth://SN-1"
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.0.0/24", []string{"10.244.0.0/24", "fd00:244::/64"}
	n.Spec.Taints = []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoSchedule}}
	n.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:example.com/theirs":{}}}}`)},
		{Manager: fieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:plinth.dev/rack":{},"f:plinth.node-restriction.kubernetes.io/taints":{},"f:topology.kubernetes.io/zone":{}}},
				"f:spec":{"f:podCIDR":{},"f:podCIDRs":{"v:\"10.244.0.0/24\"":{},"v:\"fd00:244::/64\"":{}},"f:providerID":{},"f:taints":{}}}`)},
	}
	return n
}

func TestPatchSaysWhatIsOursAndNoMore(t *testing.T) {
	same := desired{labels: map[string]string{"plinth.dev/rack": "r01", "topology.kubernetes.io/zone": "a"}, providerID: "plinth://SN-1"}
	cases := map[string]struct {
		wants  desired
		change func(*v1.Node)
		want   string // of the patch, from its labels on; empty: there is nothing to do
	}{
		"as desired": {wants: same},
		"a label has another value": {wants: same, change: func(n *v1.Node) { n.Labels["plinth.dev/rack"] = "r02" },
			want: `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"0","topology.kubernetes.io/zone":"a"}},"spec":{"providerID":"plinth://SN-1","podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24","fd00:244::/64"],"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`},
		"a label is no longer desired": {wants: desired{labels: map[string]string{"plinth.dev/rack": "r01"}, providerID: "plinth://SN-1"},
			want: `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"0"}},"spec":{"providerID":"plinth://SN-1","podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24","fd00:244::/64"],"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`},
		"an adopted Node keeps its provider ID, its pod CIDRs and its taints out of the patch": {wants: same,
			change: func(n *v1.Node) { n.ManagedFields = nil; n.Labels = nil; n.Spec.ProviderID = "k3s://w1" },
			want:   `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"0","topology.kubernetes.io/zone":"a"}},"spec":{}}`},
		"an adopted Node without provider ID and pod CIDRs gets them": {
			wants:  desired{labels: same.labels, providerID: "plinth://SN-1", podCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.7.0/24")}},
			change: func(n *v1.Node) { n.ManagedFields = nil; n.Spec = v1.NodeSpec{} },
			want:   `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"0","topology.kubernetes.io/zone":"a"}},"spec":{"providerID":"plinth://SN-1","podCIDR":"10.244.7.0/24","podCIDRs":["10.244.7.0/24"]}}`},
		"a taint is added to those of others": {
			wants:  desired{labels: same.labels, providerID: "plinth://SN-1", taints: []inventory.Taint{{Key: "ours", Effect: "NoSchedule"}}},
			change: func(n *v1.Node) { n.ManagedFields = nil },
			want:   `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"1","taint.plinth.node-restriction.kubernetes.io/2b4c1793e0da95d3":"NoSchedule","topology.kubernetes.io/zone":"a"}},"spec":{"taints":[{"key":"theirs","effect":"NoSchedule"},{"key":"ours","effect":"NoSchedule"}]}}`},
		"an inventory does not write the record of taints": {
			wants: desired{labels: map[string]string{labelTaints: "7", "plinth.dev/rack": "r02"}, providerID: "plinth://SN-1"},
			want:  `"labels":{"plinth.dev/rack":"r02","plinth.node-restriction.kubernetes.io/taints":"0"}},"spec":{"providerID":"plinth://SN-1","podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24","fd00:244::/64"],"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`},
		"the last taint goes": {wants: same, change: func(n *v1.Node) {
			n.ManagedFields = nil
			n.Spec.Taints = taintsOf("ours:NoSchedule")
			maps.Copy(n.Labels, recordOf(n.Spec.Taints))
		}, want: `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"0","topology.kubernetes.io/zone":"a"}},"spec":{"taints":[]}}`},
		"what an older version put on record, and not what somebody added": {
			wants: desired{labels: same.labels, providerID: "plinth://SN-1", formerly: map[string]bool{"ours:NoSchedule": true}},
			change: func(n *v1.Node) {
				n.ManagedFields = nil
				delete(n.Labels, labelTaints)
				n.Spec.Taints = taintsOf("ours:NoSchedule theirs:NoSchedule")
				n.Annotations = map[string]string{annotationTaints: "ours:NoSchedule,theirs:NoSchedule"}
			}, want: `"labels":{"plinth.dev/rack":"r01","plinth.node-restriction.kubernetes.io/taints":"0","topology.kubernetes.io/zone":"a"}},"spec":{"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := appliedNode()
			if c.change != nil {
				c.change(n)
			}
			patch, ok, err := c.wants.patch(n)
			if err != nil || ok != (c.want != "") {
				t.Fatalf("to do: %t, %v", ok, err)
			}
			if !ok {
				return
			}
			data, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			const head = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1","uid":"u1","resourceVersion":"7",`
			if diff := cmp.Diff(head+c.want, string(data)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func BenchmarkPatchOfANodeThatIsAsDesired(b *testing.B) {
	n := appliedNode()
	w := desired{labels: map[string]string{"plinth.dev/rack": "r01", "topology.kubernetes.io/zone": "a"}, taints: []inventory.Taint{}, providerID: "plinth://SN-1"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := w.patch(n); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
