package source

import (
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
)

// taken is what a reconciler has stored whose process leads by a lease.
func taken(t *testing.T, client *fake.Clientset, lease string, texts ...string) *Reconciler {
	t.Helper()
	k := reconcilerOf(client)
	k.Lease = lease
	for _, text := range texts {
		e := proposed(text)
		k.take(e)
		if err := k.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func annotations(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), AcceptedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.Annotations
}

func TestWhatIsStoredNamesTheLeaseOfItsWriter(t *testing.T) {
	client := fake.NewClientset()
	k := taken(t, client, "plinth", text("a"))
	if got := annotations(t, client)[AnnotationLease]; got != "plinth" {
		t.Errorf("at first it names %q", got)
	}
	next := proposed(text("b"))
	k.take(next)
	if err := k.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := annotations(t, client); got[AnnotationLease] != "plinth" || got[AnnotationGeneration] != "2" {
		t.Errorf("after an edit it says %v", got)
	}
	if err := client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), AcceptedName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.stored.loaded = false
	if err := k.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := annotations(t, client)[AnnotationLease]; got != "plinth" {
		t.Errorf("after somebody deleted it, it names %q", got)
	}
	taken(t, client, "", text("c"))
	if got := annotations(t, client); got[AnnotationLease] != "plinth" || got[AnnotationGeneration] != "4" {
		t.Errorf("after an edit that one took up who was not elected, it says %v", got)
	}
}

// TestOneWhoseLeaseCountsNoMoreEnds has the leader of another lease store first: before this one begins, and where both are about
// to store the first generation.
func TestOneWhoseLeaseCountsNoMoreEnds(t *testing.T) {
	for name, begun := range map[string]bool{"it has not begun": false, "both store the first": true} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			k, enforced, ended := reconcilerOf(client), 0, 0
			k.Lease, k.Enforce, k.Overtaken = "plinth", func(*inventory.Inventory) { enforced++ }, func() { ended++ }
			mine := proposed(text("b"))
			k.take(mine)
			other := fake.NewClientset()
			taken(t, other, DefaultLease, text("a"))
			stored, err := other.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: LabelAccepted})
			if err != nil {
				t.Fatal(err)
			}
			storesFirst := sync.OnceFunc(func() {
				for i := range stored.Items {
					_ = client.Tracker().Create(v1.SchemeGroupVersion.WithResource("configmaps"), &stored.Items[i], namespace) // or a slice of the other one is there
				}
			})
			if !begun {
				storesFirst()
			}
			client.PrependReactor("create", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.(clienttesting.CreateAction).GetObject().(*v1.ConfigMap).Name == AcceptedName {
					storesFirst()
				}
				return false, nil, nil
			})
			err = k.step(t.Context())
			if err == nil || !strings.Contains(err.Error(), "lease "+DefaultLease) || ended == 0 || enforced > 0 {
				t.Errorf("error %v; it ended %d times, and %d inventories came into force", err, ended, enforced)
			}
			if got := annotations(t, client); got[AnnotationLease] != DefaultLease || got[AnnotationGeneration] != "1" {
				t.Errorf("what is stored says %v", got)
			}
		})
	}
}

// One that links the provider is told by its name as long as others lead that are called as Plinth's, too.
func TestWhatIsStoredNamesTheProgramThatIsNotCalledAsPlinths(t *testing.T) {
	client := fake.NewClientset()
	for i, program := range []string{"", "ccm", "", "other"} {
		k := reconcilerOf(client)
		k.Lease, k.Program = "plinth", program
		e := proposed(text("abcd"[i : i+1]))
		k.take(e)
		if err := k.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := annotations(t, client)[AnnotationProgram], []string{"", "ccm", "ccm", "other"}[i]; got != want {
			t.Errorf("%d, stored by %q: it names %q, want %q", i, program, got, want)
		}
	}
	if got := Program(); got != "source.test" { // as this binary is called
		t.Errorf("this process is called %q", got)
	}
	if !IsOwnProgram("plinth-cloud-controller-manager") || IsOwnProgram("k3s") {
		t.Error("programs are not told by their names")
	}
}

func TestWithoutAWordTheDefaultLeaseCounts(t *testing.T) {
	client := fake.NewClientset()
	taken(t, client, "", text("a"))
	k := taken(t, client, DefaultLease, text("b")) // of an installation that an earlier version has stored
	if got := annotations(t, client)[AnnotationLease]; got != DefaultLease {
		t.Errorf("it names %q", got)
	}
	k.Lease, k.stored.loaded = "plinth", false
	if err := k.step(t.Context()); err == nil {
		t.Error("the leader of another lease goes on")
	}
	if got := LeaseOf(nil); got != DefaultLease {
		t.Error(got)
	}
}
