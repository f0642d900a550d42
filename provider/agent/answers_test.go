package agent

import (
	"context"
	"fmt"
	"log/slog"
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
	"plinth.dev/plinth/provider/agent/watch"
	"plinth.dev/plinth/routing"
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
	stranger := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"198.51.100.64/28"}}}
	client := fake.NewClientset(agenttest.RackNode("w1", "10.244.1.0/24", 1), stranger)
	s := watch.New(slog.Default(), client, "kube-system", "w1", func() {})
	s.FollowInventory = func(ctx context.Context, _ string, set func(source.Followed, error)) error {
		set(source.Followed{Inventory: agenttest.OneRack(t, inventory.ModeNone)}, nil)
		<-ctx.Done()
		return ctx.Err()
	}
	s.Start(t.Context())
	until := func(what string, ok func(plan.Inputs) bool) (in plan.Inputs) {
		t.Helper()
		waitFor(t, what, func() bool {
			s.Adjust(t.Context())
			var missing string
			in, missing = s.Snapshot()
			return missing == "" && ok(in)
		})
		return in
	}
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
	a.inputs = until("all is known", func(plan.Inputs) bool { return true })
	if begin := time.Now(); !over("203.0.113.0/25", begin) || over("198.51.100.0/24", begin) {
		t.Error("the pools of the first inventory are not answered for, or others are")
	}

	edited := agenttest.OneRack(t, inventory.ModeNone)
	edited.Pools = append(edited.Pools, pooled("198.51.100.0/24").Pools...)
	s.Accept(t.Context(), source.Followed{Inventory: edited}, nil)
	a.inputs = until("the edit is known", func(in plan.Inputs) bool { return in.Inventory == edited })
	edit := time.Now()
	if over("198.51.100.0/24", edit) || over("198.51.100.0/24", edit.Add(answersAfter-time.Second)) || !over("203.0.113.0/25", edit) {
		t.Error("what the pools begin to have is answered for before labels have come, or what they had is not")
	}
	stranger.Labels = map[string]string{lb.InPoolLabel: "public"}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), stranger, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.inputs = until("the label is known", func(in plan.Inputs) bool { return len(in.Taken) > 0 })
	label := time.Now()
	if over("198.51.100.128/28", label) || over("198.51.100.128/28", label.Add(answersAfter-time.Second)) {
		t.Error("it is answered for while labels come still")
	}
	if at := label.Add(answersAfter); !over("198.51.100.128/28", at) || over("198.51.100.64/28", at) {
		t.Error("the rest of the pool is not answered for in the end, or the pods are")
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
