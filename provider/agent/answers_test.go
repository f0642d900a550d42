package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wait"
)

// pooled is an inventory with a pool of these blocks.
func pooled(blocks ...string) *inventory.Inventory {
	p := inventory.Pool{Name: "public"}
	for _, b := range blocks {
		p.Ranges = append(p.Ranges, inventory.RangeOf(netip.MustParsePrefix(b)))
	}
	return &inventory.Inventory{Pools: []inventory.Pool{p}}
}

func TestAPoolIsAnsweredForOnceNothingHasChangedForAWhile(t *testing.T) {
	const a, b, c = "192.0.2.0/25", "192.0.2.128/25", "198.51.100.0/24"
	type step struct {
		at    time.Duration
		pools []string
		taken uint64
		sure  bool
		want  string
		again time.Duration
	}
	for name, steps := range map[string][]step{
		"the pools of the first inventory at once": {{0, []string{a}, 0, true, "[192.0.2.0/25]", 0}},
		"though Nodes are in doubt":                {{0, []string{a}, 0, false, "[192.0.2.0/25]", 0}},
		"a block more, later": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a, c}, 0, true, "[192.0.2.0/25]", 60 * time.Second},
			{110 * time.Second, []string{a, c}, 0, true, "[192.0.2.0/25]", 50 * time.Second},
			{160 * time.Second, []string{a, c}, 0, true, "[192.0.2.0/25 198.51.100.0/24]", 0},
		},
		"of a block that becomes wider, what there was all the time": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{"192.0.2.0/24"}, 0, true, "[192.0.2.0/25]", 60 * time.Second},
			{160 * time.Second, []string{"192.0.2.0/24"}, 0, true, "[192.0.2.0/24]", 0},
		},
		"what goes, at once": {
			{0, []string{a, c}, 0, true, "[192.0.2.0/25 198.51.100.0/24]", 0},
			{time.Second, []string{c}, 0, true, "[198.51.100.0/24]", 0},
		},
		"while labels come, as of the next leader, later still": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a, b}, 0, true, "[192.0.2.0/25]", 60 * time.Second},
			{130 * time.Second, []string{a, b}, 1, true, "[192.0.2.0/25]", 60 * time.Second},
			{185 * time.Second, []string{a, b}, 2, true, "[192.0.2.0/25]", 60 * time.Second},
			{245 * time.Second, []string{a, b}, 2, true, "[192.0.2.0/24]", 0},
		},
		"though a label comes and goes all the time, in the end": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a, b}, 1, true, "[192.0.2.0/25]", 60 * time.Second},
			{150 * time.Second, []string{a, b}, 2, true, "[192.0.2.0/25]", 60 * time.Second},
			{350 * time.Second, []string{a, b}, 3, true, "[192.0.2.0/25]", 50 * time.Second},
			{400 * time.Second, []string{a, b}, 4, true, "[192.0.2.0/24]", 0},
		},
		"labels that come once Nodes are in no doubt count, however old the edit": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a, b}, 0, false, "[192.0.2.0/25]", 0},
			{600 * time.Second, []string{a, b}, 0, false, "[192.0.2.0/25]", 0},
			{601 * time.Second, []string{a, b}, 1, true, "[192.0.2.0/25]", 60 * time.Second},
		},
		"a label by itself changes nothing": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a}, 1, true, "[192.0.2.0/25]", 0},
		},
		"not while Nodes are in doubt": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a, b}, 0, false, "[192.0.2.0/25]", 0},
			{600 * time.Second, []string{a, b}, 0, false, "[192.0.2.0/25]", 0},
			{601 * time.Second, []string{a, b}, 0, true, "[192.0.2.0/24]", 0},
		},
		"one that was taken away meanwhile, anew": {
			{0, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{100 * time.Second, []string{a, b}, 0, true, "[192.0.2.0/25]", 60 * time.Second},
			{130 * time.Second, []string{a}, 0, true, "[192.0.2.0/25]", 0},
			{165 * time.Second, []string{a, b}, 0, true, "[192.0.2.0/25]", 60 * time.Second},
		},
	} {
		var as answers
		begin := time.Now()
		for _, s := range steps {
			again := as.observe(pooled(s.pools...), s.taken, s.sure, begin.Add(s.at))
			if got := fmt.Sprint(as.pools.Prefixes()); got != s.want || again != s.again {
				t.Errorf("%s, at %v: %s, again in %v; want %s, %v", name, s.at, got, again, s.want, s.again)
			}
		}
	}
}

// What is answered for is never more than what pools have now, and begins to be so only after it was a pool's for long enough.
func TestNothingIsAnsweredForThatWasNoPoolsForLong(t *testing.T) {
	blocks := []string{"192.0.2.0/26", "192.0.2.64/26", "192.0.2.128/26", "192.0.2.192/26"}
	rapid.Check(t, func(t *rapid.T) {
		var as answers
		now, since, taken, quiet := time.Now(), map[string]time.Time{}, uint64(0), time.Now()
		first, doubt := now, now
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			has := rapid.SliceOfDistinct(rapid.SampledFrom(blocks), rapid.ID).Draw(t, "pool")
			if rapid.IntRange(0, 3).Draw(t, "label") == 0 {
				taken, quiet = taken+1, now
			}
			for _, b := range blocks {
				if _, had := since[b]; !slices.Contains(has, b) {
					delete(since, b)
				} else if !had {
					since[b] = now
				}
			}
			before := as.pools
			sure := rapid.IntRange(0, 5).Draw(t, "sure") > 0
			if !sure {
				doubt = now
			}
			as.observe(pooled(has...), taken, sure, now)
			for _, b := range blocks {
				p := netip.MustParsePrefix(b)
				labelled := now.Sub(quiet) < answersAfter && quiet != first && (now.Sub(since[b]) < answersWithin || now.Sub(doubt) < answersWithin)
				switch answered := as.pools.ContainsPrefix(p); {
				case before == nil && answered != slices.Contains(has, b):
					t.Fatalf("of the first inventory, %v: %s: %t", has, b, answered)
				case answered && !slices.Contains(has, b):
					t.Fatalf("%s is answered for, and no pool has it", b)
				case before != nil && before.ContainsPrefix(p) && slices.Contains(has, b) && !answered:
					t.Fatalf("%s was answered for, and is not, though a pool has it still", b)
				case before != nil && answered && !before.ContainsPrefix(p) && (!sure || now.Sub(since[b]) < answersAfter || labelled):
					t.Fatalf("%s is answered for after %v, sure: %t", b, now.Sub(since[b]), sure)
				}
			}
		}
	})
}

// An edit reaches an agent before the labels that it leads to. No route is over the pods of a Node that is labelled meanwhile.
func TestAnEditIsNoFasterThanTheLabelsThatItLeadsTo(t *testing.T) {
	stranger := inPool("stranger", "198.51.100.64/28", "192.0.2.7")
	delete(stranger.Labels, lb.InPoolLabel)
	s, client := followed(t, inventory.ModeNone, rackNode("w1", "10.244.1.0/24", 1), stranger)
	a := &Agent{sources: s, schedule: schedule{timer: time.NewTimer(time.Hour)}}
	over := func(pods string, at time.Time) bool {
		a.answer("", at)
		m, err := a.inputs.Machine()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(routing.Plan(plan.RoutingView(a.inputs, m, inventory.ModeNone, nil)).Routes, func(r routing.Route) bool {
			return r.Kind == routing.UnreachableForwarded && r.Dst.Overlaps(netip.MustParsePrefix(pods))
		})
	}
	a.inputs = until(t, s, "all is known", func(plan.Inputs) bool { return true })
	if begin := time.Now(); !over("203.0.113.0/25", begin) || over("198.51.100.0/24", begin) {
		t.Error("the pools of the first inventory are not answered for, or others are")
	}

	edited := agenttest.OneRack(t, inventory.ModeNone)
	edited.Pools = append(edited.Pools, pooled("198.51.100.0/24").Pools...)
	s.accept(t.Context(), source.Followed{Inventory: edited}, nil)
	a.inputs = until(t, s, "the edit is known", func(in plan.Inputs) bool { return in.Inventory == edited })
	edit := time.Now()
	if over("198.51.100.0/24", edit) || over("198.51.100.0/24", edit.Add(answersAfter-time.Second)) || !over("203.0.113.0/25", edit) {
		t.Error("what the pools begin to have is answered for before labels have come, or what they had is not")
	}
	stranger.Labels[lb.InPoolLabel] = "public"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), stranger, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.inputs = until(t, s, "the label is known", func(in plan.Inputs) bool { return len(in.Taken) > 0 })
	label := time.Now()
	if over("198.51.100.128/28", label) || over("198.51.100.128/28", label.Add(answersAfter-time.Second)) {
		t.Error("it is answered for while labels come still")
	}
	if at := label.Add(answersAfter); !over("198.51.100.128/28", at) || over("198.51.100.64/28", at) {
		t.Error("the rest of the pool is not answered for in the end, or the pods are")
	}
}

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
		s, client := followed(t, mode, rackNode("w1", "10.244.1.0/24", 1), inPool("stranger", "203.0.113.16/28", "192.0.2.7"))
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
func takenIn(s *sources, after time.Duration) (in plan.Inputs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Taken = s.takenNow(time.Now().Add(after))
	return in
}

// bears is how many Nodes bear the label, as the sources know.
func bears(s *sources, n int) func(plan.Inputs) bool {
	return func(plan.Inputs) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.inPools.items) == n
	}
}

// forgetsAfter has the sources forget what departed after so long a time.
func (s *sources) forgetsAfter(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = grace
}

func TestWhatANodeHadOfAPoolCountsForAWhile(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect, rackNode("w1", "10.244.1.0/24", 1), inPool("stranger", "203.0.113.16/28", "192.0.2.7"))
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
	until(t, s, "the own Node is gone", func(plan.Inputs) bool { return !s.isSure(time.Now()) })
	if in := takenIn(s, time.Hour); !all(in) {
		t.Errorf("while this machine's own Node is missing there is left %v", in.Taken)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), rackNode("w1", "10.244.1.0/24", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the own Node is back", func(plan.Inputs) bool { return s.isSure(time.Now().Add(2 * graceAfterDoubt)) })
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
	s, client := followed(t, inventory.ModeDirect, rackNode("w1", "10.244.1.0/24", 1), labelled)
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
	if _, err := client.CoreV1().Nodes().Create(t.Context(), rackNode("w1", "10.244.1.0/24", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.True(t, 20*time.Second, 5*time.Millisecond, "the Node is known", func() (bool, string) { return s.isSure(time.Now()), "" })
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
	s, client := followed(t, inventory.ModeDirect, rackNode("w1", "10.244.1.0/24", 1), inPool("stranger", "203.0.113.16/28", "192.0.2.7"))
	all := takes("192.0.2.7/32", "203.0.113.16/28", "203.0.113.99/32")
	inv := until(t, s, "the Node in a pool is known", all).Inventory
	s.forgetsAfter(graceAfterDoubt)
	s.accept(t.Context(), source.Followed{}, errors.New("a newer version stored it"))
	if err := client.CoreV1().Nodes().Delete(t.Context(), "stranger", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "its label is gone", bears(s, 0))
	if in := takenIn(s, time.Hour); !all(in) || s.isSure(time.Now()) {
		t.Errorf("while it cannot be read there is left %v", in.Taken)
	}
	s.accept(t.Context(), source.Followed{Inventory: inv}, nil)
	if in := takenIn(s, time.Hour); !all(in) || !s.isSure(time.Now()) {
		t.Errorf("once it can be read there is left %v", in.Taken)
	}
	if in := takenIn(s, time.Hour+graceAfterDoubt); len(in.Taken) > 0 {
		t.Errorf("in the end there is left %v", in.Taken)
	}
}

// One timer is for all that departs, whatever a kubelet does to its Node.
func TestAPassIsMadeOnceWhatANodeHadIsForgotten(t *testing.T) {
	woken := make(chan struct{}, 1)
	s := newSources(fake.NewClientset(), "kube-system", "w1", func() { woken <- struct{}{} })
	s.self.items["w1"], s.inPools.synced, s.grace = plan.Node{}, true, 20*time.Millisecond
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

// A process that follows another goes on with what that one answered for, and with what Nodes had of pools then.
func TestWhatIsAnsweredForOutlivesAProcess(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Owner{Node: "nuc1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, answered := range [][]netip.Prefix{nil, {}, {netip.MustParsePrefix("192.168.60.1/32")}} {
		in := agenttest.SomeInputs(t)
		in.Answered, in.Taken = answered, []netip.Prefix{netip.MustParsePrefix("192.168.50.40/30")}
		if err := d.Save(in); err != nil {
			t.Fatal(err)
		}
		got, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		if (got.Answered == nil) != (answered == nil) || !slices.Equal(got.Answered, answered) || !slices.Equal(got.Taken, in.Taken) {
			t.Errorf("saved %v and %v, loaded %v and %v", answered, in.Taken, got.Answered, got.Taken)
		}
		m, _ := got.Machine()
		want := "192.168.50.32/27"
		switch {
		case answered != nil && len(answered) == 0:
			want = ""
		case answered != nil:
			want = "192.168.60.1/32"
		}
		var over []string
		for _, r := range routing.Plan(plan.RoutingView(got, m, inventory.ModeNone, nil)).Routes {
			if r.Kind == routing.UnreachableForwarded {
				over = append(over, r.Dst.String())
			}
		}
		if isAll := answered == nil; !isAll && strings.Join(over, " ") != want || isAll && (len(over) < 3 || slices.Contains(over, want)) {
			t.Errorf("%v: answers for %v", answered, over)
		}
		var a answers
		a.resume(got.Answered)
		a.observe(got.Inventory, 0, true, time.Now())
		if isAll := a.pools.Equal(a.all); isAll != (answered == nil) {
			t.Errorf("%v: it goes on with %v", answered, a.pools.Prefixes())
		}
	}
}
