package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/directory"
	"plinth.dev/plinth/wait"
)

// kept runs the controller that keeps the directory, until the test, or what it returns, ends it.
func kept(t *testing.T, client *apiServer) (stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &directory.Controller{Client: client, Namespace: "kube-system", Log: slog.New(slog.DiscardHandler)}
	if err := c.Start(ctx, factory.Core().V1().Nodes()); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	wait.True(t, 20*time.Second, 5*time.Millisecond, "there is a directory", func() (bool, string) {
		_, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), directory.IndexName, metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return stop
}

// follows is whether the sources follow Nodes besides their own.
func follows(s *Sources) (nodes, inPools bool) {
	return s.following.nodes, s.following.stopInPools != nil
}

// followsNone has the inputs be as wanted without a watch of other Nodes.
func followsNone(s *Sources, ok func(plan.Inputs) bool) func(plan.Inputs) bool {
	return func(in plan.Inputs) bool {
		return ok(in) && !s.WatchesNodes()
	}
}

func both(a, b func(plan.Inputs) bool) func(plan.Inputs) bool {
	return func(in plan.Inputs) bool { return a(in) && b(in) }
}

// directoryOf is what a controller stores of Nodes.
func directoryOf(t *testing.T, nodes ...runtime.Object) (stored []runtime.Object) {
	t.Helper()
	client := &apiServer{Clientset: fake.NewClientset(nodes...)}
	stop := kept(t, client)
	defer stop()
	list, err := client.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: source.LabelAccepted + "=" + source.OfDirectory})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		stored = append(stored, &list.Items[i])
	}
	return stored
}

func TestNodesAreThoseOfTheDirectoryAndNobodyFollowsThem(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
		w1, w2, stranger := agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2), inPool("stranger", "203.0.113.16/28", "192.0.2.7")
		all := append(directoryOf(t, w1, w2, stranger), w1, w2, stranger)
		s, client := followed(t, mode, all...)
		kept(t, client)
		want := []string{"w1", "w2"}
		if mode == inventory.ModeOverlay {
			want = []string{"stranger", "w1", "w2"}
		}
		until(t, s, "all are known", followsNone(s, both(are(want...), takes("192.0.2.7/32", "203.0.113.16/28", "203.0.113.99/32"))))

		t.Log("one has other pods, one comes, one goes")
		w2.Spec.PodCIDRs = []string{"10.244.7.0/24"}
		if _, err := client.CoreV1().Nodes().Update(t.Context(), w2, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "its pods are known", followsNone(s, func(in plan.Inputs) bool {
			return are(want...)(in) && in.Nodes[len(want)-1].PodCIDRs[0].String() == "10.244.7.0/24"
		}))
		if _, err := client.CoreV1().Nodes().Create(t.Context(), agenttest.RackNode("w3", "10.244.3.0/24", 3), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "it is known", followsNone(s, are(append(want, "w3")...)))
		for _, name := range []string{"w3", "stranger"} {
			if err := client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		until(t, s, "they are gone", followsNone(s, are("w1", "w2")))
		if n := client.watches.Load(); n > 2 {
			t.Errorf("%s: there were %d watches of Nodes, want that of the own one and the controller's", mode, n)
		}
	}
}

// TestAControllerThatKeepsNoDirectoryLeavesNothingUnknown: an older one deletes the directory when it begins to lead, and then
// Nodes come and go that no directory has. A newer one takes over again.
func TestAControllerThatKeepsNoDirectoryLeavesNothingUnknown(t *testing.T) {
	w1, w2 := agenttest.RackNode("w1", "10.244.1.0/24", 1), inPool("w2", "203.0.113.16/28", "10.1.0.12")
	w2.Labels[inventory.LabelRack] = "r1"
	s, client := followed(t, inventory.ModeFabric, w1, w2)
	s.Timing.Directory = 50 * time.Millisecond
	until(t, s, "there is no directory, and Nodes are followed", both(are("w1", "w2"), func(plan.Inputs) bool {
		nodes, inPools := follows(s)
		return nodes && inPools
	}))

	t.Log("a controller keeps one")
	stop := kept(t, client)
	until(t, s, "Nodes are followed no more", followsNone(s, both(are("w1", "w2"), bears(s, 1))))

	t.Log("one that keeps none leads, and two Nodes come")
	stop()
	for _, name := range []string{directory.IndexName, directory.PageName("r1")} {
		if err := client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w4 := inPool("w4", "203.0.113.32/28", "192.0.2.8")
	for _, node := range []*corev1.Node{agenttest.RackNode("w3", "10.244.3.0/24", 3), w4} {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	known := func(in plan.Inputs) bool {
		if len(in.Nodes) < 2 {
			t.Fatalf("meanwhile the Nodes are %v", names(in.Nodes))
		}
		return are("w1", "w2", "w3")(in) && bears(s, 2)(in)
	}
	until(t, s, "they are known", known)

	t.Log("the first one leads again")
	kept(t, client)
	until(t, s, "Nodes are followed no more", followsNone(s, known))
}

func TestAPageThatIsMissingOrCannotBeReadHasNodesFollowed(t *testing.T) {
	w1, w2 := agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2)
	w2.Labels[inventory.LabelRack] = "r2"
	s, client := followed(t, inventory.ModeOverlay, append(directoryOf(t, w1, w2), w1, w2)...)
	s.Timing.Directory = 50 * time.Millisecond
	until(t, s, "both are known", followsNone(s, are("w1", "w2")))
	pages, name := client.CoreV1().ConfigMaps("kube-system"), directory.PageName("r2")
	page, err := pages.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	followsAll := both(are("w1", "w2"), func(plan.Inputs) bool { nodes, _ := follows(s); return nodes })
	newer := page.DeepCopy()
	newer.Annotations[inventory.AnnotationFormat] = agenttest.NewerFormat
	if _, err := pages.Update(t.Context(), newer, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "Nodes are followed in the place of a page of a newer format", followsAll)
	if _, err := pages.Update(t.Context(), page, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "Nodes are followed no more", followsNone(s, are("w1", "w2")))
	if err := pages.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "Nodes are followed in the place of a page that is gone", followsAll)
}

// TestNodesAreKeptWhileTheyComeBack: the API server has lost its store. The own Node is the first to be there again, w2 is gone for good.
// The directory that a controller makes anew has no more Nodes than there are; nor has a list, where no controller leads.
func TestNodesAreKeptWhileTheyComeBack(t *testing.T) {
	for _, led := range []bool{true, false} {
		w1, w2, w3 := agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2), agenttest.RackNode("w3", "10.244.3.0/24", 3)
		s, client := followed(t, inventory.ModeDirect, append(directoryOf(t, w1, w2, w3), w1, w2, w3)...)
		s.Timing.Directory, s.Timing.Grace = 50*time.Millisecond, time.Second
		until(t, s, "all are known", followsNone(s, are("w1", "w2", "w3")))
		for _, name := range []string{directory.IndexName, directory.PageName("r1")} {
			if err := client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"w3", "w2", "w1"} {
			if err := client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		all := are("w1", "w2", "w3")
		until(t, s, "the own Node is gone", both(func(in plan.Inputs) bool {
			if !all(in) {
				t.Fatalf("led %v: the Nodes are %v", led, names(in.Nodes))
			}
			return true
		}, func(plan.Inputs) bool {
			_, there := s.Self()
			return !there
		}))
		if led {
			kept(t, client)
		} else {
			until(t, s, "Nodes are followed", both(all, func(plan.Inputs) bool { return s.WatchesNodes() }))
		}
		back := time.Now()
		if _, err := client.CoreV1().Nodes().Create(t.Context(), w1, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "the own Node is back", func(in plan.Inputs) bool {
			if !all(in) {
				t.Fatalf("led %v: %s after this machine's the Nodes are %v", led, time.Since(back), names(in.Nodes))
			}
			return time.Since(back) > s.Timing.Grace*3/4
		})
		if _, err := client.CoreV1().Nodes().Create(t.Context(), w3, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "w2 is forgotten", are("w1", "w3"))
		if after := time.Since(back); after < s.Timing.Grace {
			t.Errorf("led %v: it was forgotten after %s", led, after)
		}
	}
}

// stores has the directory be that of some Nodes.
func (a *apiServer) stores(t *testing.T, nodes ...runtime.Object) {
	t.Helper()
	for _, obj := range directoryOf(t, nodes...) {
		if _, err := a.CoreV1().ConfigMaps("kube-system").Update(t.Context(), obj.(*corev1.ConfigMap), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestADirectoryThatLacksThisMachineIsNotBelieved: of a store that is lost, it may be heard before that this machine's own Node is gone.
func TestADirectoryThatLacksThisMachineIsNotBelieved(t *testing.T) {
	w1, w2, w3 := agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2), agenttest.RackNode("w3", "10.244.3.0/24", 3)
	s, client := followed(t, inventory.ModeDirect, append(directoryOf(t, w1, w2, w3), w1, w2, w3)...)
	until(t, s, "all are known", followsNone(s, are("w1", "w2", "w3")))
	again := w1.DeepCopy()
	again.CreationTimestamp = metav1.Unix(9, 0)
	for _, own := range []*corev1.Node{nil, again} {
		nodes := []runtime.Object{w3}
		if own != nil {
			nodes = append(nodes, own)
		}
		client.stores(t, nodes...)
		until(t, s, "w2 is missed", both(are("w1", "w2", "w3"), func(plan.Inputs) bool { return s.published.nodes.kept }))
		client.stores(t, w1, w2, w3)
		until(t, s, "nothing is missed", both(are("w1", "w2", "w3"), func(plan.Inputs) bool { return !s.published.nodes.kept }))
	}
	client.stores(t, w1, w3)
	until(t, s, "w2 is gone", followsNone(s, are("w1", "w3")))
}

// TestNothingIsFollowedUntilItIsKnownWhatThereIs: machines that start before the API server must not all ask for all Nodes then.
func TestNothingIsFollowedUntilItIsKnownWhatThereIs(t *testing.T) {
	w1 := agenttest.RackNode("w1", "10.244.1.0/24", 1)
	s, client := sources(t, inventory.ModeDirect, append(directoryOf(t, w1), w1)...)
	s.Timing.Directory = time.Millisecond
	var up atomic.Bool
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !up.Load(), nil, apierrors.NewServiceUnavailable("it starts")
	})
	s.Start(t.Context())
	wait.True(t, 20*time.Second, time.Millisecond, "the own Node and the inventory are known", func() (bool, string) {
		s.Adjust(t.Context())
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.known.Name != "" && s.accepted.inventory != nil, ""
	})
	for begun := time.Now(); time.Since(begun) < 200*time.Millisecond; time.Sleep(time.Millisecond) {
		s.Adjust(t.Context())
		if s.WatchesNodes() {
			t.Fatalf("after %s Nodes are followed", time.Since(begun))
		}
	}
	up.Store(true)
	until(t, s, "it is known", followsNone(s, are("w1")))
}

func TestAnotherModeTakesOtherPages(t *testing.T) {
	w1, w2 := agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2)
	w2.Labels[inventory.LabelRack] = "r2"
	s, _ := followed(t, inventory.ModeFabric, append(directoryOf(t, w1, w2), w1, w2)...)
	until(t, s, "that of the rack is known", followsNone(s, are("w1")))
	for mode, want := range map[inventory.Mode]string{inventory.ModeOverlay: "w1 w2", inventory.ModeNone: "", inventory.ModeDirect: "w1"} {
		s.Accept(t.Context(), source.Followed{Inventory: agenttest.OneRack(t, mode)}, nil)
		until(t, s, "those of the mode are known", followsNone(s, func(in plan.Inputs) bool { return strings.Join(names(in.Nodes), " ") == want }))
	}
}

// TestNodesOfARackWithoutAPageAreFollowedAtOnce: waiting is of no use, the index says so.
func TestNodesOfARackWithoutAPageAreFollowedAtOnce(t *testing.T) {
	w1 := agenttest.RackNode("w1", "10.244.1.0/24", 1)
	objs := append(directoryOf(t, w1), w1)
	for _, obj := range objs {
		if cm, ok := obj.(*corev1.ConfigMap); ok && cm.Name == directory.IndexName {
			cm.Data["racks.json"], cm.Data["missing.json"] = "[]", `["r1"]`
		}
	}
	s, _ := followed(t, inventory.ModeDirect, objs...)
	s.Timing.Directory = time.Hour
	until(t, s, "they are followed", both(are("w1"), func(plan.Inputs) bool {
		nodes, inPools := follows(s)
		return nodes && !inPools
	}))
}

// TestADirectoryOfRacksThatAreNotNeededIsNotWaitedFor reads an index as somebody may have written it.
func TestADirectoryOfRacksThatAreNotNeededIsNotWaitedFor(t *testing.T) {
	w1 := agenttest.RackNode("w1", "10.244.1.0/24", 1)
	objs := append(directoryOf(t, w1), w1)
	for _, obj := range objs {
		if cm, ok := obj.(*corev1.ConfigMap); ok && cm.Name == directory.IndexName {
			racks, err := json.Marshal([]string{"r1", "r9"})
			if err != nil {
				t.Fatal(err)
			}
			cm.Data["racks.json"] = string(racks)
		}
	}
	s, _ := followed(t, inventory.ModeDirect, objs...)
	until(t, s, "it is known", followsNone(s, are("w1")))
}
