package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestWhatNobodyLooksAtIsNotKeptOfANode(t *testing.T) {
	node := appliedNode()
	node.Status.Images = []v1.ContainerImage{{Names: []string{"registry.example.com/a:v1"}, SizeBytes: 1 << 20}}
	node.Status.VolumesAttached = []v1.AttachedVolume{{Name: "v1"}}
	node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{Manager: fieldManager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"})
	want := node.DeepCopy()
	want.Status.Images, want.ManagedFields = nil, want.ManagedFields[1:2]
	owns := appliedTo(t, node)
	for range 2 { // an informer may give it what it trimmed before
		trimmed, err := Trim(node)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, trimmed); d != "" {
			t.Errorf("-want +kept:\n%s", d)
		}
		if d := cmp.Diff(owns, appliedTo(t, trimmed.(*v1.Node)), cmp.AllowUnexported(owned{})); d != "" {
			t.Errorf("what Plinth applied is told otherwise:\n%s", d)
		}
	}
}

func appliedTo(t *testing.T, node *v1.Node) owned {
	t.Helper()
	o, err := ownedOf(node)
	if err != nil || !o.providerID {
		t.Fatalf("what Plinth applied is %+v (%v)", o, err)
	}
	slices.Sort(o.labels)
	return o
}

func TestANodeThatWasMissedIsNotTrimmed(t *testing.T) {
	gone, want := cache.DeletedFinalStateUnknown{Key: "w1", Obj: appliedNode()}, cache.DeletedFinalStateUnknown{Key: "w1", Obj: appliedNode()}
	got, err := Trim(gone)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
