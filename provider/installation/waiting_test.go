package installation

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory/source"
)

func TestAControllerThatWaitsToLeadSaysForWhom(t *testing.T) {
	held := func(holder, by string) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(time.Now())
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: source.DefaultLease}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed}}
		if by != "" {
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}, {Manager: by, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`)}}
		}
		return l
	}
	for _, c := range []struct {
		name  string
		lease *coordinationv1.Lease
		err   error
		says  []string // empty: nothing
	}{
		{"nobody leads", nil, nil, nil},
		{"somebody has led", held("", "plinth-cloud-controller-manager"), nil, nil},
		{"another of ours", held("nuc1_1", "plinth-cloud-controller-manager"), nil, []string{"level=INFO", "holder=nuc1_1"}},
		{"nobody knows whose", held("nuc1_1", ""), nil, []string{"level=INFO", "holder=nuc1_1"}},
		{"k3s", held("nuc1_1", "k3s"), nil, []string{"level=ERROR", "holder=nuc1_1", "program=k3s", "disable-cloud-controller"}},
		{"one that is called as this", held("nuc1_1", "ccm"), nil, []string{"level=INFO", "holder=nuc1_1"}},
		{"no right", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, source.DefaultLease, errors.New("no")), []string{"level=ERROR", "Roles of this version"}},
		{"no answer", nil, errors.New("timeout"), []string{"level=WARN", "timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset()
			if c.lease != nil {
				client = fake.NewClientset(c.lease)
			}
			if c.err != nil {
				client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			}
			var log bytes.Buffer
			w := &Waiting{Client: client, Namespace: "kube-system", Name: source.DefaultLease, Program: "ccm", Log: slog.New(slog.NewTextHandler(&log, nil))}
			for range 3 {
				w.look(t.Context())
			}
			lines := strings.Count(log.String(), "\n")
			if want := min(1, len(c.says)); lines != want {
				t.Errorf("%d lines, want %d:\n%s", lines, want, &log)
			}
			for _, want := range append(c.says, "") {
				if !strings.Contains(log.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, &log)
				}
			}
		})
	}
}
