package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wait"
)

// inPool is a Node that bears the label: of another rack, or no machine at all.
func inPool(name, cidr, address string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{lb.InPoolLabel: "public"}}, Spec: corev1.NodeSpec{PodCIDRs: []string{cidr}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeExternalIP, Address: "203.0.113.99"}}
	return n
}

// takes reports whether the inputs know these, and no others, of Nodes in pools.
func takes(want ...string) func(plan.Inputs) bool {
	return func(in plan.Inputs) bool {
		var got []string
		for _, p := range in.Taken {
			got = append(got, p.String())
		}
		return slices.Equal(got, want)
	}
}

// Neither the mode nor the rack of a Node counts: whoever has addresses of a pool is known.
func TestNodesInPoolsAreKnownInEveryMode(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeNone, inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
		s, client := followed(t, mode, agenttest.RackNode("w1", "10.244.1.0/24", 1), inPool("stranger", "203.0.113.16/28", "192.0.2.7"))
		in := until(t, s, "the Node in a pool is known", takes("192.0.2.7/32", "203.0.113.16/28", "203.0.113.99/32"))
		m, err := in.Machine()
		if err != nil {
			t.Fatal(err)
		}
		overPods := netip.MustParsePrefix("203.0.113.16/28")
		for _, r := range routing.Plan(plan.RoutingView(in, m, mode, nil)).Routes {
			if r.Kind == routing.UnreachableForwarded && r.Dst.Overlaps(overPods) {
				t.Errorf("%s: %v is over the pods of a Node", mode, r)
			}
		}

		t.Log("one joins later")
		later := inPool("later", "203.0.113.32/28", "192.0.2.8")
		delete(later.Labels, lb.InPoolLabel)
		if _, err := client.CoreV1().Nodes().Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		later.Labels[lb.InPoolLabel] = "public"
		if _, err := client.CoreV1().Nodes().Update(t.Context(), later, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "it is known, too", takes("192.0.2.7/32", "192.0.2.8/32", "203.0.113.16/28", "203.0.113.32/28", "203.0.113.99/32"))
	}
}

// takenIn is what Nodes will have of pools after so long a time.
func takenIn(s *Sources, after time.Duration) (in plan.Inputs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Taken = s.takenNow(time.Now().Add(after))
	return in
}

// bears is how many Nodes bear the label, as the sources know.
func bears(s *Sources, n int) func(plan.Inputs) bool {
	return func(plan.Inputs) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.caches.inPools.items) == n
	}
}

// forgetsAfter has the sources forget what departed after so long a time.
func (s *Sources) forgetsAfter(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Timing.Grace = grace
}

func TestWhatANodeHadOfAPoolCountsForAWhile(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect, agenttest.RackNode("w1", "10.244.1.0/24", 1), inPool("stranger", "203.0.113.16/28", "192.0.2.7"))
	all := takes("192.0.2.7/32", "203.0.113.16/28", "203.0.113.99/32")
	until(t, s, "the Node in a pool is known", all)
	s.forgetsAfter(graceAfterDoubt)
	if err := client.CoreV1().Nodes().Delete(t.Context(), "stranger", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "it has gone", bears(s, 0))
	if in := takenIn(s, graceAfterDoubt-5*time.Second); !all(in) {
		t.Errorf("while a controller may be away there is left %v", in.Taken)
	}

	t.Log("the store is lost: this machine's own Node is gone, too")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the own Node is gone", func(plan.Inputs) bool { return !s.IsSynced(time.Now()) })
	if in := takenIn(s, time.Hour); !all(in) {
		t.Errorf("while this machine's own Node is missing there is left %v", in.Taken)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), agenttest.RackNode("w1", "10.244.1.0/24", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the own Node is back", func(plan.Inputs) bool { return s.IsSynced(time.Now().Add(2 * graceAfterDoubt)) })
	for _, after := range []time.Duration{graceAfterDoubt / 2, time.Hour} { // the hour is when the doubt is seen to be over
		if in := takenIn(s, after); !all(in) {
			t.Errorf("while those of others may come back there is left %v", in.Taken)
		}
	}
	if in := takenIn(s, time.Hour+graceAfterDoubt); len(in.Taken) > 0 {
		t.Errorf("in the end there is left %v", in.Taken)
	}
}

// A backup that is older than the label has this machine's own Node as it is. A controller that was upgraded meanwhile labels again.
func TestWhatALostLabelSaidCountsUntilAControllerLabelsAgain(t *testing.T) {
	labelled := inPool("stranger", "203.0.113.16/28", "192.0.2.7")
	s, client := followed(t, inventory.ModeDirect, agenttest.RackNode("w1", "10.244.1.0/24", 1), labelled)
	all := takes("192.0.2.7/32", "203.0.113.16/28", "203.0.113.99/32")
	until(t, s, "the Node in a pool is known", all)
	s.forgetsAfter(graceAfterDoubt)
	bare := labelled.DeepCopy()
	delete(bare.Labels, lb.InPoolLabel)
	for _, step := range []struct {
		node *corev1.Node
		n    int
	}{{bare, 0}, {labelled, 1}} {
		if _, err := client.CoreV1().Nodes().Update(t.Context(), step.node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "the label is as it should be", bears(s, step.n))
		if in := takenIn(s, graceAfterDoubt-5*time.Second); !all(in) {
			t.Errorf("of %d labelled Nodes there is left %v", step.n, in.Taken)
		}
	}
	if in := takenIn(s, time.Hour); !all(in) {
		t.Errorf("of a Node that is labelled again there is left %v", in.Taken)
	}
}

func TestAnAgentThatBeginsWhileTheStoreIsLostForgetsNothing(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect)
	s.forgetsAfter(graceAfterDoubt)
	s.mu.Lock()
	s.depart([]netip.Prefix{netip.MustParsePrefix("203.0.113.16/28")})
	s.mu.Unlock()
	all := takes("203.0.113.16/28")
	if in := takenIn(s, time.Hour); !all(in) {
		t.Errorf("before there is a Node of this machine there is left %v", in.Taken)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), agenttest.RackNode("w1", "10.244.1.0/24", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.True(t, 20*time.Second, 5*time.Millisecond, "the Node is known", func() (bool, string) {
		s.Adjust(t.Context())
		return s.IsSynced(time.Now()), ""
	})
	for _, after := range []time.Duration{time.Hour, time.Hour + graceAfterDoubt - time.Second} {
		if in := takenIn(s, after); !all(in) {
			t.Errorf("%v later there is left %v", after, in.Taken)
		}
	}
	if in := takenIn(s, time.Hour+graceAfterDoubt); len(in.Taken) > 0 {
		t.Errorf("in the end there is left %v", in.Taken)
	}
}

// The controller labels by pools that this agent cannot read, and its own are the older ones.
func TestNothingIsForgottenWhileTheInventoryCannotBeRead(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect, agenttest.RackNode("w1", "10.244.1.0/24", 1), inPool("stranger", "203.0.113.16/28", "192.0.2.7"))
	all := takes("192.0.2.7/32", "203.0.113.16/28", "203.0.113.99/32")
	inv := until(t, s, "the Node in a pool is known", all).Inventory
	s.forgetsAfter(graceAfterDoubt)
	s.Accept(t.Context(), source.Followed{}, errors.New("a newer version stored it"))
	if err := client.CoreV1().Nodes().Delete(t.Context(), "stranger", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "its label is gone", bears(s, 0))
	if in := takenIn(s, time.Hour); !all(in) || s.IsSynced(time.Now()) {
		t.Errorf("while it cannot be read there is left %v", in.Taken)
	}
	s.Accept(t.Context(), source.Followed{Inventory: inv}, nil)
	if in := takenIn(s, time.Hour); !all(in) || !s.IsSynced(time.Now()) {
		t.Errorf("once it can be read there is left %v", in.Taken)
	}
	if in := takenIn(s, time.Hour+graceAfterDoubt); len(in.Taken) > 0 {
		t.Errorf("in the end there is left %v", in.Taken)
	}
}

// One timer is for all that departs, whatever a kubelet does to its Node.
func TestAPassIsMadeOnceWhatANodeHadIsForgotten(t *testing.T) {
	woken := make(chan struct{}, 1)
	s := New(slog.Default(), fake.NewClientset(), "kube-system", "w1", func() { woken <- struct{}{} })
	s.caches.self.items["w1"], s.caches.inPools.synced, s.Timing.Grace = plan.Node{}, true, 20*time.Millisecond
	s.depart([]netip.Prefix{netip.MustParsePrefix("203.0.113.16/28"), netip.MustParsePrefix("203.0.113.32/28")})
	if in := takenIn(s, 0); !takes("203.0.113.16/28", "203.0.113.32/28")(in) {
		t.Errorf("at once there is left %v", in.Taken)
	}
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Fatal("no pass is made")
	}
	if in := takenIn(s, 0); len(in.Taken) > 0 {
		t.Errorf("in the end there is left %v", in.Taken)
	}
}

func TestNoNodeHasMoreOfPoolsThanABound(t *testing.T) {
	n := inPool("hostile", "203.0.113.16/28", "192.0.2.7")
	for i := range 1000 {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("203.0.112.%d", i%256)})
	}
	if has := reduceTaken(n); len(has) > 100 || has[0].String() != "203.0.113.16/28" {
		t.Errorf("it has %d, the first is %v", len(has), has[0])
	}
}
