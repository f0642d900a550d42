package stock

import (
	"context"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory/source"
)

// gone is a cloud to which every machine is retired.
type gone struct{ cloudprovider.Interface }

func (gone) InstancesV2() (cloudprovider.InstancesV2, bool) { return goneInstances{}, true }

type goneInstances struct{ cloudprovider.InstancesV2 }

func (goneInstances) InstanceExists(context.Context, *v1.Node) (bool, error) { return false, nil }

func TestANodeIsDeletedOnlyAsItWasVerified(t *testing.T) {
	unready := v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionFalse}}}
	isReady := v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}}
	live := func(uid types.UID, status v1.NodeStatus) *v1.Node {
		n := &v1.Node{}
		n.Name, n.UID, n.ResourceVersion, n.Status = "retired", uid, "7", status
		return n
	}
	cases := map[string]struct {
		live       *v1.Node // nil: it is gone
		generation string   // stored; this controller is at none
		want       string   // of the error; empty: it may go
	}{
		"retired and not Ready":       {live("1", unready), "", ""},
		"Ready by now":                {live("1", isReady), "", "is Ready by now"},
		"another by now":              {live("2", unready), "", "is another by now"},
		"gone by now":                 {nil, "", "not found"},
		"another inventory in force":  {live("1", unready), "2", "generation 2 is stored"},
		"an inventory without number": {live("1", unready), "x", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if tc.live != nil {
				client = fake.NewClientset(tc.live)
			}
			keeper := source.NewReconciler(source.Config{Client: client, Namespace: "kube-system"})
			if tc.generation != "" {
				cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: source.AcceptedName, Annotations: map[string]string{source.AnnotationGeneration: tc.generation}}}
				if _, err := client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			cloud := &verifyingCloud{Interface: gone{}, nodes: client.CoreV1().Nodes(), current: keeper.Current}
			answers, _ := cloud.InstancesV2()
			exists, err := answers.InstanceExists(t.Context(), live("1", unready))
			if tc.want == "" && (exists || err != nil) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("exists %v, error %v; want false and %q", exists, err, tc.want)
			}
			checkDeletion(t, client, &cloud.verified, tc.want == "")
		})
	}
}

// checkDeletion checks that a Node is deleted as it was verified, or not at all.
func checkDeletion(t *testing.T, client *fake.Clientset, verified *sync.Map, want bool) {
	t.Helper()
	err := preconditionClient(client, verified).CoreV1().Nodes().Delete(t.Context(), "retired", metav1.DeleteOptions{})
	if (err == nil) != want {
		t.Errorf("deleting it: %v", err)
	}
	for _, action := range client.Actions() {
		if del, ok := action.(clienttesting.DeleteActionImpl); ok {
			p := del.DeleteOptions.Preconditions
			if !want || p == nil || *p.UID != "1" || *p.ResourceVersion != "7" {
				t.Errorf("deleted with preconditions %+v", p)
			}
		}
	}
}
