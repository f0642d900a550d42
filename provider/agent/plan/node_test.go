package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
)

func TestAKubeletSaysThatItsMachineShutsDown(t *testing.T) {
	for _, tt := range []struct {
		ready   corev1.ConditionStatus
		message string
		want    bool
	}{
		{corev1.ConditionTrue, "kubelet is posting ready status", false},
		{corev1.ConditionFalse, "container runtime is down", false},
		{corev1.ConditionFalse, "node is shutting down", true},
		{corev1.ConditionFalse, "[container runtime is down, node is shutting down]", true},
		{corev1.ConditionUnknown, "Kubelet stopped posting node status.", false},
	} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Message: "node is shutting down"},
			{Type: corev1.NodeReady, Status: tt.ready, Message: tt.message},
		}}}
		if got := NodeOf(n).ShuttingDown; got != tt.want {
			t.Errorf("Ready is %s, %q: got %v", tt.ready, tt.message, got)
		}
	}
}

func TestNodeIsReducedToWhatAPlanNeeds(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: map[string]string{"plinth.dev/rack": "r1", corev1.LabelNodeExcludeBalancers: ""}},
		Spec:       corev1.NodeSpec{ProviderID: "plinth://w1", PodCIDRs: []string{"10.244.1.7/24", "nonsense"}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: "w1"}, {Type: corev1.NodeInternalIP, Address: "10.1.0.11"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
			},
			Conditions: []corev1.NodeCondition{{Type: lb.FabricReady, Status: corev1.ConditionTrue, Reason: "AsPlanned", Message: "routes 1/1, sessions 1/1"}},
		},
	}
	got := NodeOf(n)
	if got.Rack != "r1" || !got.Excluded || len(got.Addresses) != 1 || got.PodCIDRs[0].String() != "10.244.1.0/24" || len(got.PodCIDRs) != 1 ||
		got.Condition != (Condition{Ready: corev1.ConditionTrue, Reason: "AsPlanned", Message: "routes 1/1, sessions 1/1"}) || got.Identity.ProviderID != "plinth://w1" {
		t.Errorf("got %+v", got)
	}
}
