package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wait"
)

// apiServer is one that may be slow, or unable, to list Nodes.
type apiServer struct {
	*fake.Clientset
	lists   atomic.Pointer[func() error] // is asked before each list of Nodes
	watches atomic.Int32                 // of Nodes, that were ever begun
}

// followed are the sources of w1 at work, and the API server that they follow.
func followed(t *testing.T, mode inventory.Mode, nodes ...runtime.Object) (*Sources, *apiServer) {
	t.Helper()
	s, client := sources(t, mode, nodes...)
	s.Start(t.Context())
	return s, client
}

// sources are those of w1 before they are at work.
func sources(t *testing.T, mode inventory.Mode, nodes ...runtime.Object) (*Sources, *apiServer) {
	t.Helper()
	client := &apiServer{Clientset: fake.NewClientset(nodes...)}
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if may := client.lists.Load(); may != nil {
			err := (*may)()
			return err != nil, nil, err
		}
		return false, nil, nil
	})
	client.PrependWatchReactor("nodes", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		client.watches.Add(1)
		return true, watch.Filter(w, selected(action.(clienttesting.WatchAction).GetWatchRestrictions().Labels)), err
	})
	s := New(slog.Default(), client, "kube-system", "w1", func() {})
	s.Transition.Pause, s.Timing.Grace = 50*time.Millisecond, 50*time.Millisecond
	s.FollowInventory = func(ctx context.Context, _ string, set func(source.Followed, error)) error {
		set(source.Followed{Inventory: agenttest.OneRack(t, mode)}, nil)
		<-ctx.Done()
		return ctx.Err()
	}
	return s, client
}

// selected has a watch say of what has not the labels, or has them no more, that it is gone, as an API server does.
func selected(by labels.Selector) watch.FilterFunc {
	return func(e watch.Event) (watch.Event, bool) {
		if n, ok := e.Object.(*corev1.Node); ok && !by.Matches(labels.Set(n.Labels)) {
			e.Type = watch.Deleted
		}
		return e, true
	}
}

// until has the sources adjust until a snapshot is as it should be.
func until(t *testing.T, s *Sources, what string, ok func(plan.Inputs) bool) (in plan.Inputs) {
	t.Helper()
	wait.True(t, 20*time.Second, 5*time.Millisecond, what, func() (bool, string) {
		s.Adjust(t.Context())
		var missing string
		in, missing = s.Snapshot()
		return missing == "" && ok(in), fmt.Sprintf("missing %q, Nodes %v", missing, names(in.Nodes))
	})
	return in
}

func names(nodes []*routing.Node) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

func are(want ...string) func(plan.Inputs) bool {
	return func(in plan.Inputs) bool { return slices.Equal(names(in.Nodes), want) }
}

// lists has the mirror of Nodes that is in force hear the answer to a list.
func (s *Sources) lists(t *testing.T, nodes ...any) {
	t.Helper()
	if err := s.caches.nodes.Replace(nodes, "1"); err != nil {
		t.Fatal(err)
	}
}

func TestNodesThatAreGoneAreForgottenOnceADoubtIsOver(t *testing.T) {
	own, heir := agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w3", "10.244.2.0/24", 200)
	s, client := followed(t, inventory.ModeDirect, own, heir)
	until(t, s, "both Nodes are known, and every change of them is seen", func(in plan.Inputs) bool {
		return are("w1", "w3")(in) && client.watches.Load() == 3 // of the own Node, of those in pools, and of those around it
	})

	t.Log("the store is lost, and with it w2 for good; w3 comes back with the CIDR that w2 had")
	s.lists(t, own, heir, agenttest.RackNode("w2", "10.244.2.0/24", 100))
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the own Node is gone", are("w2", "w3"))
	s.lists(t)
	for range 3 {
		<-time.After(s.Timing.Grace)
		if in := until(t, s, "there is a snapshot", func(plan.Inputs) bool { return true }); !are("w2", "w3")(in) {
			t.Fatalf("while this machine's own Node is missing the Nodes are %v", names(in.Nodes))
		}
	}

	t.Log("the own Node is there again")
	if _, err := client.CoreV1().Nodes().Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	in := until(t, s, "w2 is forgotten", are("w1", "w3"))
	m, err := in.Machine()
	if err != nil {
		t.Fatal(err)
	}
	table := routing.Plan(plan.RoutingView(in, m, inventory.ModeDirect, nil))
	taken := netip.MustParsePrefix("10.244.2.0/24")
	if len(table.Refusals) > 0 || !slices.ContainsFunc(table.Routes, func(r routing.Route) bool { return r.Dst == taken }) {
		t.Errorf("w3 has no route to its pods: %v, refused %v", table.Routes, table.Refusals)
	}
}

func TestNodesAreKnownWhileADoubtIsSettled(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect, agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2))
	until(t, s, "both Nodes are known", are("w1", "w2"))
	var asked atomic.Bool
	fail := func() error {
		asked.Store(true)
		return context.DeadlineExceeded
	}
	client.lists.Store(&fail)
	s.lists(t)
	until(t, s, "the Nodes are listed again", func(in plan.Inputs) bool {
		if !are("w1", "w2")(in) {
			t.Fatalf("the Nodes are %v", names(in.Nodes))
		}
		return asked.Load()
	})
	until(t, s, "both Nodes are known after a list that failed", are("w1", "w2"))
}

// TestAMirrorThatIsNotInForceChangesNoNode has so many Nodes that few changes are put
// into the list there is, rather than a list made anew.
func TestAMirrorThatIsNotInForceChangesNoNode(t *testing.T) {
	var nodes []runtime.Object
	var all []string
	for i := range 24 {
		n := agenttest.RackNode(fmt.Sprintf("w%d", i+1), fmt.Sprintf("10.244.%d.0/24", i+1), int64(i))
		nodes, all = append(nodes, n), append(all, n.Name)
	}
	slices.Sort(all)
	s, _ := followed(t, inventory.ModeDirect, nodes...)
	until(t, s, "all Nodes are known", are(all...))
	old := s.caches.nodes
	s.followNodes(t.Context(), s.following.nodeLabels)
	before := until(t, s, "another mirror is in force", func(plan.Inputs) bool { return s.caches.nodes != old })
	if err := old.Add(agenttest.RackNode("w30", "10.244.30.0/24", 30)); err != nil {
		t.Fatal(err)
	}
	if err := old.Delete(nodes[1]); err != nil {
		t.Fatal(err)
	}
	if in, missing := s.Snapshot(); missing != "" || !are(all...)(in) || in.Version.Nodes != before.Version.Nodes {
		t.Errorf("missing %q, Nodes %v of version %d, before %d", missing, names(in.Nodes), in.Version.Nodes, before.Version.Nodes)
	}
}

// TestAChangeOfModeWaitsForTheNodesThatItNeeds holds back the list of all Nodes for
// longer than the pauses are.
func TestAChangeOfModeWaitsForTheNodesThatItNeeds(t *testing.T) {
	s, client := followed(t, inventory.ModeFabric, agenttest.RackNode("w1", "10.244.1.0/24", 1), agenttest.RackNode("w2", "10.244.2.0/24", 2))
	until(t, s, "both Nodes are known", are("w1", "w2"))
	if st, _ := s.Step(time.Now()); st.Routes != inventory.ModeFabric {
		t.Fatalf("at first %+v", st)
	}
	answer := make(chan struct{})
	wait := func() error {
		<-answer
		return nil
	}
	client.lists.Store(&wait)
	s.Accept(t.Context(), source.Followed{Inventory: agenttest.OneRack(t, inventory.ModeOverlay)}, nil)
	s.Adjust(t.Context())
	<-time.After(3 * s.Transition.Pause)
	if _, missing := s.Snapshot(); missing != "the nodes" {
		t.Fatalf("missing %q", missing)
	}
	close(answer)
	until(t, s, "the Nodes of the overlay are known", are("w1", "w2"))
	st, _ := s.Step(time.Now())
	if want := (plan.Step{Routes: inventory.ModeFabric, Tunnel: true, Fabric: true, VXLAN: inventory.DefaultVXLAN}); st != want {
		t.Errorf("the first step is %+v, want %+v", st, want)
	}
}

func TestPasswordOfTheProcessBeforeHoldsUntilItsSecretIsRead(t *testing.T) {
	key := inventory.SecretKey{Secret: "bgp", Key: "tor"}
	client := fake.NewClientset()
	var readable atomic.Bool
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !readable.Load(), nil, apierrors.NewForbidden(corev1.Resource("secrets"), "bgp", nil)
	})
	s := New(slog.Default(), client, "kube-system", "w1", func() {})
	s.restored.Passwords = map[inventory.SecretKey]bgp.Password{key: "s3cret", {Secret: "other", Key: "tor"}: "none of ours"}
	s.followSecrets(t.Context(), []string{"bgp"})
	locked := func() (map[inventory.SecretKey]bgp.Password, uint64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.passwords(), s.version.Secrets
	}
	before, version := locked()
	if len(before) != 1 || before[key] != "s3cret" {
		t.Errorf("while the Secret cannot be read there are %d passwords", len(before))
	}
	readable.Store(true)
	wait.True(t, 20*time.Second, 5*time.Millisecond, "a Secret that is not there has no password", func() (bool, string) {
		now, v := locked()
		return len(now) == 0 && v > version, fmt.Sprintf("%d passwords, version %d", len(now), v)
	})
}

func TestTheLineBreakAtTheEndOfASecretIsNoPartOfThePassword(t *testing.T) {
	values := map[string]bgp.Password{"pw": "pw", "pw\n": "pw", "pw\r\n": "pw", "pw\n\n": "pw\n", " pw ": " pw ", "\n": "", "": ""}
	for value, want := range values {
		key := inventory.SecretKey{Secret: "bgp", Key: "tor"}
		m := newCache("secrets", &sync.Mutex{}, reduceSecret, func() {})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bgp"}, Data: map[string][]byte{"tor": []byte(value)}}
		if err := m.Add(secret); err != nil {
			t.Fatal(err)
		}
		s := New(slog.Default(), fake.NewClientset(), "kube-system", "w1", func() {})
		s.caches.secrets["bgp"] = m
		if got := s.passwords()[key]; got != want {
			t.Errorf("%q: the password has %d bytes, not %d", value, len(got), len(want))
		}
	}
}

func TestSilenceAboutEveryKindGrowsUntilTheNextWord(t *testing.T) {
	client := fake.NewClientset()
	s := New(slog.Default(), client, "kube-system", "w1", func() {})
	s.Start(t.Context())
	s.followRack(t.Context(), "r1")
	s.followNodes(t.Context(), "")
	s.followSecrets(t.Context(), []string{"bgp"})
	waitFor := func(what string, ok func(silence map[string]time.Duration) bool) (silence map[string]time.Duration) {
		t.Helper()
		wait.True(t, 20*time.Second, 5*time.Millisecond, what, func() (bool, string) {
			s.Adjust(t.Context())
			s.Snapshot()
			silence = s.LastSeen()
			return ok(silence), fmt.Sprintf("silence %v", silence)
		})
		return silence
	}
	kinds := []string{"configmaps", "endpointslices", "ipaddresses", "node", "nodes", "secrets", "services"}
	quiet := waitFor("all are silent for a while", func(silence map[string]time.Duration) bool {
		for _, kind := range kinds {
			if silence[kind] < 300*time.Millisecond {
				return false
			}
		}
		return true
	})
	if got := slices.Sorted(maps.Keys(quiet)); !slices.Equal(got, kinds) {
		t.Errorf("the kinds are %v, want %v", got, kinds)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "kube-system", Name: name} }
	own := agenttest.RackNode("w1", "10.244.1.0/24", 1)
	for _, obj := range []runtime.Object{&corev1.ConfigMap{ObjectMeta: meta("plinth-accepted")}, &corev1.Secret{ObjectMeta: meta("bgp")}, own} {
		if err := client.Tracker().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	waitFor("the API server has said something about three kinds", func(silence map[string]time.Duration) bool {
		return silence["services"] > 300*time.Millisecond && max(silence["configmaps"], silence["secrets"], silence["node"], silence["nodes"]) < silence["services"]-200*time.Millisecond
	})
}

// TestWhatIsTriedCountsForItsTimeAlone: nobody may be there to end it.
func TestWhatIsTriedCountsForItsTimeAlone(t *testing.T) {
	accepted, tried := agenttest.OneRack(t, inventory.ModeDirect), agenttest.OneRack(t, inventory.ModeDirect)
	inForce := func(s *Sources) *inventory.Inventory {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.accepted.inventory
	}
	s := New(slog.Default(), fake.NewClientset(), "kube-system", "w1", func() {})
	accepted.Safety.SessionTrial, s.Timing.Trial = inventory.Some(100*time.Millisecond), 100*time.Millisecond
	trial := source.Trial{Inventory: tried, ID: "1", Routers: []string{"tor"}, Until: time.Now().Add(-time.Minute)} // the controller's clock is behind
	s.Accept(t.Context(), source.Followed{Inventory: accepted, Trial: &trial}, nil)
	if inForce(s) != tried {
		t.Error("what is tried does not count")
	}
	for begin := time.Now(); inForce(s) != accepted; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("what was tried counts still")
		}
	}
	over := trial
	over.Until = time.Now().Add(-time.Hour)
	s.Accept(t.Context(), source.Followed{Inventory: accepted, Trial: &over}, nil)
	if inForce(s) != accepted || s.accepted.trial != nil {
		t.Error("what was over when it was read counts")
	}
	s.Accept(t.Context(), source.Followed{Inventory: accepted, Trial: &trial}, nil)
	s.Accept(t.Context(), source.Followed{Inventory: accepted}, nil)
	if inForce(s) != accepted || s.accepted.trial != nil {
		t.Error("what the controller ended counts")
	}
}

func TestTheSilenceOfItsOwnNodeIsTold(t *testing.T) {
	s := New(slog.Default(), fake.NewClientset(), "kube-system", "w1", func() {})
	s.caches.self.lastSeen = time.Now().Add(-time.Minute)
	s.caches.services.lastSeen = time.Now()
	if got := s.SelfLastSeen(); got < time.Minute || got > 2*time.Minute {
		t.Errorf("it was heard of %v ago", got)
	}
}
