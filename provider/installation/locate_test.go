package installation

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

func TestTheNamespaceIsFoundThatNobodySaid(t *testing.T) {
	podIn := func(namespace string) runtime.Object {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controller", Labels: map[string]string{"app.kubernetes.io/name": "plinth-cloud-controller-manager"}}}
	}
	moved := acceptedIn(older, "3")
	moved.Annotations[AnnotationMovedTo] = newer
	for name, c := range map[string]struct {
		have []runtime.Object
		want string
	}{
		"nothing":                         {nil, older},
		"the expected one":                {[]runtime.Object{acceptedIn(older, "1")}, older},
		"both, the expected one first":    {[]runtime.Object{acceptedIn(older, "1"), acceptedIn(newer, "1")}, older},
		"another":                         {[]runtime.Object{acceptedIn(newer, "1")}, newer},
		"another beside another's lease":  {[]runtime.Object{acceptedIn(newer, "1"), leaseOf(older, "cloud_1", 15)}, newer},
		"it was moved":                    {[]runtime.Object{moved, leaseOf(older, movedPrefix+newer, 15), acceptedIn(newer, "3")}, newer},
		"another without an inventory":    {[]runtime.Object{leaseOf(newer, "host_1", 15)}, newer},
		"another whose pod does not run":  {[]runtime.Object{podIn(newer)}, newer},
		"the expected one does not run":   {[]runtime.Object{podIn(newer), podIn(older)}, older},
		"several, none the expected":      {[]runtime.Object{acceptedIn("a", "1"), acceptedIn("b", "1")}, "say which one with --namespace: a, b"},
		"several pods, none the expected": {[]runtime.Object{podIn("a"), podIn("b")}, "say which one with --namespace: a, b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Locate(t.Context(), cluster(c.have...), older)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestWhoMayNotLookForItIsAnsweredAsExpected has the rights of a Role in one namespace.
func TestWhoMayNotLookForItIsAnsweredAsExpected(t *testing.T) {
	client := cluster(acceptedIn(newer, "1"))
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no rule allows it"))
	})
	if got, err := Locate(t.Context(), client, older); got != older || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
