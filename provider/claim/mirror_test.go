package claim

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestAMirrorThatIsAheadOfTheClusterListsAnew is of a restore that no count tells of, as that
// of an older version's cluster: its watch would say nothing for hours, and nobody could lead.
func TestAMirrorThatIsAheadOfTheClusterListsAnew(t *testing.T) {
	m := newTestJournal(t, "").mirror
	_ = m.Replace([]any{claimAt("192.0.2.1", "a", "900")}, "1000")
	relisted := false
	m.relist = func() { relisted = true }
	if m.Lead(nil, "800", func() { t.Error("it takes over what is older than it knows") }) || !relisted {
		t.Errorf("lists anew: %v", relisted)
	}
}

// TestAListOfARestoredClusterIsAllThereIs to who waits to lead: its versions are older than those
// of what it does not have.
func TestAListOfARestoredClusterIsAllThereIs(t *testing.T) {
	m := newTestJournal(t, "").mirror
	_ = m.Replace([]any{claimAt("192.0.2.1", "a", "5"), claimAt("192.0.2.2", "b", "900")}, "1000")
	_ = m.Replace([]any{claimAt("192.0.2.1", "a", "5")}, "7")
	if all := m.Objects(); len(all) != 1 || all[0].Addr.String() != "192.0.2.1" {
		t.Errorf("it knows %v", all)
	}
}

// TestAMirrorListsOnceTheCountIsReadAndAgainWhenItIsTold: the list of a restored cluster is not
// to be believed before the restore is noticed, and a watch may wait in silence for hours.
func TestAMirrorListsOnceTheCountIsReadAndAgainWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := make(chan string, 1000)
		kube := fake.NewClientset()
		kube.PrependReactor("list", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
			asks <- "list"
			return true, &networkingv1.IPAddressList{ListMeta: metav1.ListMeta{ResourceVersion: "8"}}, nil
		})
		m := newTestJournal(t, "").mirror
		m.client.Kube = kube
		var known atomic.Bool
		go m.Run(t.Context(), func(context.Context) error {
			asks <- "check"
			if known.Load() {
				return nil
			}
			return errors.New("nobody answers")
		})
		for range 3 {
			if got := <-asks; got != "check" {
				t.Fatalf("%s, though the count could not be read", got)
			}
		}
		known.Store(true)
		for _, when := range []string{"at first", "when it is told"} {
			last, now := "", <-asks
			for now != "list" {
				last, now = now, <-asks
			}
			if last != "check" {
				t.Errorf("%s it lists without a look at the count", when)
			}
			if synctest.Wait(); m.Changes() == 0 {
				t.Fatal("the list is not taken in")
			}
			m.Relist()
		}
	})
}
