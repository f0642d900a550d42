package installation

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
)

const (
	older = "kube-system"
	newer = "plinth-system"
)

func TestAnInstallationActsUnlessAnotherMay(t *testing.T) {
	in := func(namespace string, change ...func(*Installation)) Installation {
		i := Installation{Namespace: namespace}
		for _, f := range change {
			f(&i)
		}
		return i
	}
	accepted := func(i *Installation) { i.Generation = "7" }
	held := func(i *Installation) { i.Holder = "host_1" }
	parked := func(i *Installation) { i.Holder = movedPrefix + newer }
	moved := func(i *Installation) { i.MovedTo = newer }
	for name, c := range map[string]struct {
		own  string
		all  []Installation
		want []string // parts of why it may not; none: it may
	}{
		"nothing is there": {newer, nil, nil},
		"it alone":         {newer, []Installation{in(newer, held, accepted)}, nil},
		"another that is stopped, and accepted nothing": {newer, []Installation{in(older), in(newer, held)}, nil},
		"another that accepted something":               {newer, []Installation{in(older, accepted), in(newer, held)}, []string{"generation 7", older, "move --namespace kube-system --to plinth-system", "delete configmap -l plinth.dev/accepted"}},
		"another that leads":                            {newer, []Installation{in(older, accepted, held), in(newer, held)}, []string{"host_1", older, "move --namespace kube-system --to plinth-system"}},
		"another that leads with nothing":               {newer, []Installation{in(older, held), in(newer, held)}, []string{"host_1", older}},
		"a newcomer waits":                              {older, []Installation{in(older, held, accepted), in(newer, held)}, nil},
		"two that have an inventory":                    {older, []Installation{in(older, held, accepted), in(newer, held, accepted)}, []string{newer, "Remove"}},
		"another's inventory beside its own":            {older, []Installation{in(older, held, accepted), in(newer, accepted)}, nil},
		"it was moved away":                             {older, []Installation{in(older, held, accepted, moved), in(newer, accepted)}, []string{"was moved to namespace plinth-system", "move --namespace plinth-system --to kube-system"}},
		"it is moved away, and elects no leader":        {older, []Installation{in(older, parked, accepted)}, []string{"was moved to namespace plinth-system"}},
		"it was moved here":                             {newer, []Installation{in(older, parked, accepted, moved), in(newer, held, accepted)}, nil},
		"it was moved here, up to the mark":             {newer, []Installation{in(older, parked, accepted), in(newer, held, accepted)}, nil},
		"the move is under way":                         {newer, []Installation{in(older, parked, accepted), in(newer, held)}, []string{"generation 7", "move --namespace kube-system --to plinth-system"}},
	} {
		t.Run(name, func(t *testing.T) {
			alive := map[string]bool{}
			for _, each := range c.all {
				alive[each.Namespace] = each.Holder != "" && each.parkedFor() == ""
			}
			got := judge(c.own, c.all, alive)
			if got != "" && len(c.want) == 0 {
				t.Errorf("it may not: %s", got)
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in %q", part, got)
				}
			}
		})
	}
}

// cluster has these objects, and lists them as an API server does: each list is of one name.
func cluster(objects ...runtime.Object) *fake.Clientset { return fake.NewClientset(objects...) }

func leaseOf(namespace, holder string, seconds int32) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: source.DefaultLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}

func acceptedIn(namespace, generation string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: source.AcceptedName, Labels: map[string]string{source.LabelAccepted: "home"},
		Annotations: map[string]string{source.AnnotationGeneration: generation},
	}}
}

func guardOf(client *fake.Clientset, log *strings.Builder) *Guard {
	return &Guard{Client: client, Namespace: newer, Lease: source.DefaultLease, Log: slog.New(slog.NewTextHandler(log, nil)), Events: record.NewFakeRecorder(10)}
}

func TestALeaseThatIsNotRenewedIsWaitedForAsLongAsItLasts(t *testing.T) {
	var log strings.Builder
	begin := time.Now()
	guard := guardOf(cluster(leaseOf(older, "host_1", 2)), &log)
	if err := guard.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := guard.Events.(*record.FakeRecorder).Events
	if len(told) != 1 || !strings.Contains(<-told, "Warning OtherInstallation This controller does nothing: host_1 holds the lease") {
		t.Errorf("%d more Events than that which says why", len(told))
	}
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("it acts after %v", took)
	}
	if n := strings.Count(log.String(), "host_1 holds the lease of namespace kube-system"); n != 1 {
		t.Errorf("it says why %d times: %s", n, &log)
	}
}

// TestALeaseThatIsRenewedKeepsAnInstallationFromActing renews it as its holder does, with a clock
// that is years behind.
func TestALeaseThatIsRenewedKeepsAnInstallationFromActing(t *testing.T) {
	var log strings.Builder
	client := cluster(leaseOf(older, "host_1", 1))
	renewals := 0
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		renewals++
		lease := leaseOf(older, "host_1", 1)
		*lease.Spec.RenewTime = metav1.NewMicroTime(time.Unix(int64(renewals), 0))
		return true, &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*lease}}, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := guardOf(client, &log).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || renewals < 2 {
		t.Errorf("after %d renewals: %v", renewals, err)
	}
}

func TestALeaseThatWasGivenUpIsNotWaitedFor(t *testing.T) {
	var log strings.Builder
	if why := newGuard(cluster(leaseOf(older, "", 15)), &log).look(t.Context()); why != "" {
		t.Error(why)
	}
}

// TestTheOwnLeaseMayLieInAnotherNamespace is a controller that was not told where its lease is to be.
func TestTheOwnLeaseMayLieInAnotherNamespace(t *testing.T) {
	var log strings.Builder
	g := newGuard(cluster(leaseOf(older, "host_1", 15)), &log)
	if why := g.look(t.Context()); why == "" {
		t.Error("it acts while another one leads")
	}
	g.LeaseIn = older
	if why := g.look(t.Context()); why != "" {
		t.Error(why)
	}
}

func newGuard(client *fake.Clientset, log *strings.Builder) *Guard {
	g := guardOf(client, log)
	g.seen = map[types.NamespacedName]lastSeen{}
	return g
}

// TestRightsOfAnOlderVersionKeepNoInstallationFromRunningOn: its ClusterRole allows no list of leases.
func TestRightsOfAnOlderVersionKeepNoInstallationFromRunningOn(t *testing.T) {
	for name, c := range map[string]struct {
		objects []runtime.Object
		acts    bool
	}{
		"with an inventory": {[]runtime.Object{acceptedIn(newer, "3")}, true},
		"a new one":         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			client := cluster(c.objects...)
			client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no rule allows it"))
			})
			if why := newGuard(client, &log).look(t.Context()); (why == "") != c.acts {
				t.Errorf("why not: %q", why)
			}
		})
	}
}

func TestOtherObjectsAreNoInstallations(t *testing.T) {
	other := leaseOf("kube-node-lease", "w1", 40)
	other.Name = "w1"
	cm := acceptedIn("default", "1")
	cm.Name = "plinth-accepted.r01.1"
	all, err := Find(t.Context(), cluster(other, cm, leaseOf(newer, "host_1", 15), acceptedIn(older, "2")), source.DefaultLease)
	if err != nil || len(all) != 2 || all[0].Namespace != older || all[0].Generation != "2" || all[1].Holder != "host_1" {
		t.Errorf("%+v %v", all, err)
	}
}
