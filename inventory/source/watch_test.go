package source

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatIsWatchedStaysWhole(t *testing.T) {
	stored := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "plinth-system", Name: AcceptedName, ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "plinth"}}},
		Data:       map[string]string{keyRacks: "shelf 1"}, BinaryData: map[string][]byte{"a": {1}},
	}
	whole := stored.DeepCopy()
	kept, err := withoutContent(stored)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, stored); d != "" {
		t.Errorf("what was handed in is another: %s", d)
	}
	want := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plinth-system", Name: AcceptedName, ResourceVersion: "7"}}
	if d := cmp.Diff(want, kept); d != "" {
		t.Error(d)
	}
}
