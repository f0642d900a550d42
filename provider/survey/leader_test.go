package survey

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/inventory/source"
)

// TestALeaseThatIsRenewedIsHeldWhateverClocksSay: who reads it may have another clock than who renews it.
func TestALeaseThatIsRenewedIsHeldWhateverClocksSay(t *testing.T) {
	for name, tt := range map[string]struct {
		holder string
		ahead  time.Duration // the holder's clock
		renews bool          // every two seconds
		silent time.Duration
	}{
		"it is renewed":                       {"w1", 0, true, 0},
		"it was, a moment ago":                {"w1", -10 * time.Second, false, 0},
		"it is not":                           {"w1", -time.Minute, false, time.Minute},
		"it is, by a clock that is late":      {"w1", -time.Hour, true, 0},
		"it is, by a clock that is early":     {"w1", time.Hour, true, 0},
		"it is not, by a clock that is early": {"w1", time.Hour, false, looksAgainFor},
		"it was given back by whoever had it": {"", -time.Minute, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"}}
				lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &tt.holder, new(int32(15))
				renew := func() { lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(tt.ahead)} }
				renew()
				client := fake.NewClientset(lease.DeepCopy())
				if tt.renews {
					go func() {
						for {
							select {
							case <-t.Context().Done():
								return
							case <-time.After(2 * time.Second):
								renew()
								if _, err := client.CoordinationV1().Leases("kube-system").Update(t.Context(), lease.DeepCopy(), metav1.UpdateOptions{}); err != nil {
									return
								}
							}
						}
					}()
				}
				got, err := Reader{Client: client, Namespace: "kube-system"}.leader(t.Context())
				if err != nil || got.Holder != tt.holder || got.Silent != tt.silent || got.Lease != "kube-system/cloud-controller-manager" {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

// TestALeaderThatMayNotActIsNamedWithWhoKeepsItFromThat is a new installation beside k3s' own controller.
func TestALeaderThatMayNotActIsNamedWithWhoKeepsItFromThat(t *testing.T) {
	held := func(namespace, holder, program string, age time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: source.DefaultLease}}
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: program, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`)}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &holder, new(int32(15)), &metav1.MicroTime{Time: time.Now().Add(-age)}
		return l
	}
	accepted := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plinth-system", Name: source.AcceptedName}}
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no rule allows it"))
	for name, c := range map[string]struct {
		others []runtime.Object
		err    error
		want   string // part of why; empty: nothing is known
	}{
		"it is alone":                    {nil, nil, ""},
		"k3s":                            {[]runtime.Object{held("kube-system", "nuc1_k3s", "k3s", 0)}, nil, "nuc1_k3s (k3s) holds the lease of namespace kube-system"},
		"k3s, which was ended":           {[]runtime.Object{held("kube-system", "nuc1_k3s", "k3s", time.Minute)}, nil, ""},
		"k3s, and what it has began":     {[]runtime.Object{held("kube-system", "nuc1_k3s", "k3s", 0), accepted}, nil, ""},
		"k3s, and it may not be read of": {[]runtime.Object{held("kube-system", "nuc1_k3s", "k3s", 0)}, forbidden, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(append(c.others, held("plinth-system", "nuc1_ours", "plinth-cloud-controller-manager", 0))...)
			client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return c.err != nil, nil, c.err })
			got, err := Reader{Client: client, Namespace: "plinth-system"}.leader(t.Context())
			if err != nil || got.Holder != "nuc1_ours" || (got.Idle == "") != (c.want == "") || !strings.Contains(got.Idle, c.want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestTheLeaseIsReadThatTheInstallationRunsOn has k3s' controller hold the one of the usual name.
func TestTheLeaseIsReadThatTheInstallationRunsOn(t *testing.T) {
	held := func(name, holder, program string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: program, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`)}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &holder, new(int32(15)), &metav1.MicroTime{Time: time.Now()}
		return l
	}
	accepted := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: source.AcceptedName}}
	client := fake.NewClientset(held(source.DefaultLease, "nuc1_k3s", "k3s"), held("plinth", "nuc1_ours", "plinth-cloud-controller-manager"), accepted)
	for said, want := range map[[2]string]diagnose.Leader{
		{}:                {Lease: "kube-system/cloud-controller-manager", Exists: true, Holder: "nuc1_k3s", Program: "k3s"},
		{"", "k3s"}:       {Lease: "kube-system/cloud-controller-manager", Exists: true, Holder: "nuc1_k3s"}, // which is only called so
		{"plinth", "ccm"}: {Lease: "kube-system/plinth", Exists: true, Holder: "nuc1_ours"},
	} {
		accepted.Annotations = map[string]string{source.AnnotationLease: said[0], source.AnnotationProgram: said[1]}
		if _, err := client.CoreV1().ConfigMaps("kube-system").Update(t.Context(), accepted, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := (Reader{Client: client, Namespace: "kube-system"}).leader(t.Context()); err != nil || *got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}
