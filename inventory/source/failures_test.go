package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// limited has the API server refuse ConfigMaps of more than 1 MiB, as a real one does.
func limited(client *fake.Clientset) {
	refuses := func(a clienttesting.Action) (bool, runtime.Object, error) {
		cm, size := a.(clienttesting.CreateAction).GetObject().(*v1.ConfigMap), 0
		for _, v := range cm.Data {
			size += len(v)
		}
		for _, v := range cm.BinaryData {
			size += len(v)
		}
		return size > 1<<20, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s: %d bytes", cm.Name, size))
	}
	client.PrependReactor("create", "configmaps", refuses)
	client.PrependReactor("update", "configmaps", refuses)
}

// wide is an inventory with a rack of so many machines beside a small one.
func wide(machines int) string {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  routers: [{name: tor, address: 10.10.99.1, asn: 65101}]\n  racks:\n    - {name: r0, machines: [{name: a, addresses: [10.10.0.11]}]}\n    - name: r1\n      machines:\n")
	for i := range machines {
		fmt.Fprintf(&b, "        - {name: m%d, addresses: [172.16.%d.%d], labels: {note: %q}}\n", i, i/250, i%250+1, strings.Repeat("x", 60))
	}
	return b.String()
}

func TestAnEditThatIsTooLargeToStoreIsRefusedAndStoresNothing(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	limited(client)
	k, events := reconcilerOf(client), record.NewFakeRecorder(100)
	k.Recorder = events
	small := proposed(wide(10))
	k.take(small)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	<-events.Events
	client.ClearActions()
	large := proposed(wide(9000))
	k.take(large)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	if w := written(client); slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, AcceptedName) }) {
		t.Errorf("it wrote %v", w)
	}
	for _, want := range []string{"P1003", "r1", "1048576", "split the rack"} {
		checkStatus(t, client, "false", "1", want)
		if e := <-events.Events; !strings.Contains(e, ReasonRefused) || !strings.Contains(e, want) {
			t.Errorf("the Event says %s, want %s", e, want)
		} else {
			events.Events <- e
		}
	}
	if got := testutil.ToFloat64(k.Metrics.ready); got != 0 {
		t.Errorf("the metric of readiness is %v", got)
	}
	if rackOfAnAgent(t, client, "r0") == nil {
		t.Error("an agent of another rack that starts now gets no inventory")
	}
	k.take(small)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	checkStatus(t, client, "true", "1", "")
}

// TestAWriteThatFailsIsTold has the API server refuse one slice, for whatever reason.
func TestAWriteThatFailsIsTold(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k, events := reconcilerOf(client), record.NewFakeRecorder(100)
	now := clocked(k)
	k.Recorder = events
	good := proposed(layout(map[string]string{"r0": "a", "r1": "b"}))
	k.take(good)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	<-events.Events
	chain := client.ReactionChain
	client.PrependReactor("create", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return nameOf(a) == sliceName("r1", 2), nil, errors.New("a policy says no")
	})
	next := proposed(layout(map[string]string{"r0": "a c", "r1": "b d"}))
	k.take(next)
	for range 3 {
		if err := k.step(ctx); err == nil {
			t.Fatal("the write did not fail")
		}
		checkStatus(t, client, "false", "1", "configmap plinth-accepted.r1.2: a policy says no")
	}
	if got := testutil.ToFloat64(k.Metrics.ready); got != 0 {
		t.Errorf("the metric of readiness is %v", got)
	}
	if n := len(events.Events); n != 1 {
		t.Errorf("%d Events tell of it, want one however often it fails", n)
	} else if e := <-events.Events; !strings.Contains(e, "InventoryNotStored") || !strings.Contains(e, "a policy says no") {
		t.Errorf("the Event says %s", e)
	}
	client.ReactionChain, now.now = chain, now.now.Add(lastRetry)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	checkStatus(t, client, "true", fmt.Sprint(k.stored.have.generation), "")
	if e := <-events.Events; !strings.Contains(e, ReasonTakenUp) {
		t.Errorf("the Event says %s", e)
	}
	if got := testutil.ToFloat64(k.Metrics.ready); got != 1 {
		t.Errorf("the metric of readiness is %v", got)
	}
}

// TestWhatIsStoredAgainIsToldWhenItFailsAndWhenItDoes has nobody edit anything: a slice is
// deleted, and cannot be stored again for a while.
func TestWhatIsStoredAgainIsToldWhenItFailsAndWhenItDoes(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k := reconcilerOf(client)
	now := clocked(k)
	good := proposed(layout(map[string]string{"r0": "a", "r1": "b"}))
	k.take(good)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sliceName("r1", 1), copyName("r1")} {
		if err := client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	chain := client.ReactionChain
	dying(client, 0)
	k.stored.loaded = false
	if err := k.step(ctx); err == nil {
		t.Fatal("the write did not fail")
	}
	checkStatus(t, client, "false", "1", "the leader is dead")
	other := reconcilerOf(client)
	if err := other.step(ctx); !errors.Is(err, ErrUnreadable) {
		t.Errorf("one that comes now takes what is left for all: %v", err)
	}
	client.ReactionChain, now.now = chain, now.now.Add(lastRetry)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	checkStatus(t, client, "true", "2", "")
	if got := testutil.ToFloat64(k.Metrics.ready); got != 1 {
		t.Errorf("the metric of readiness is %v", got)
	}
	if err := k.Current(ctx); err != nil {
		t.Errorf("one that has just stored it again: %v", err)
	}
}

// TestARefusalIsReportedThoughNothingCouldBeStoredThen has a mistake come while a slice cannot be stored again.
func TestARefusalIsReportedThoughNothingCouldBeStoredThen(t *testing.T) {
	j := newJudged(t)
	now := clocked(j.Reconciler)
	if err := j.client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), j.stored.have.parts[AcceptedName].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	chain := j.client.ReactionChain
	dying(j.client, 0)
	j.stored.loaded, j.lost = false, oneVIP
	j.take(proposed(text("b")))
	if err := j.step(t.Context()); err == nil {
		t.Fatal("the write did not fail")
	}
	j.client.ReactionChain, now.now = chain, now.now.Add(lastRetry)
	j.stepSays("203.0.113.77")
	if before, err := j.reporter.lastRefusal(t.Context()); err != nil || before.Content != j.edit.content() {
		t.Errorf("refused before is %v, %v", before, err)
	}
}

// TestAnEditIsSupersededByWhatAnotherLeaderTookUp, and not taken up again over it.
func TestAnEditIsSupersededByWhatAnotherLeaderTookUp(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k, other := reconcilerOf(client), reconcilerOf(client)
	k.take(proposed(text("a")))
	if err := k.step(ctx); err != nil || k.life.Phase != edit.Accepted {
		t.Fatal(k.life.Phase, err)
	}
	other.take(proposed(text("a", "b")))
	if err := other.step(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		k.stored.loaded = false
		if err := k.step(ctx); err != nil || k.life.Phase != edit.Superseded || !document.Equal(k.stored.have.inventory, other.stored.have.inventory) {
			t.Errorf("the edit is %s, generation %d in force: %v", k.life.Phase, k.stored.have.generation, err)
		}
	}
	checkStatus(t, client, "true", "2", "")
	k.take(proposed(text("a", "b", "c")))
	if err := k.step(ctx); err != nil || k.life.Phase != edit.Accepted {
		t.Errorf("the next one is %s: %v", k.life.Phase, err)
	}
}

// TestAFirstConflictIsNotTold has another leader store something just before the reconciler
// writes: once, and then before each write.
func TestAFirstConflictIsNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		conflicts int
		ready     string
	}{
		"once":    {1, "true"},
		"for now": {2, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, client := t.Context(), fake.NewClientset()
			k, events := reconcilerOf(client), record.NewFakeRecorder(100)
			good := proposed(text("a"))
			k.take(good)
			if err := k.step(ctx); err != nil {
				t.Fatal(err)
			}
			k.Recorder = events
			conflicts := c.conflicts
			client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				conflicts--
				return conflicts >= 0, nil, apierrors.NewConflict(v1.Resource("configmaps"), AcceptedName, errors.New("it was modified"))
			})
			next := proposed(text("b"))
			k.take(next)
			if err := k.step(ctx); (err == nil) != (c.ready == "true") {
				t.Fatal(err)
			}
			checkStatus(t, client, c.ready, fmt.Sprint(k.stored.have.generation), "")
			if told := strings.Contains(<-events.Events, ReasonNotStored); told == (c.ready == "true") || len(events.Events) > 0 {
				t.Errorf("that it was not stored is told %v, and then %d more Events", told, len(events.Events))
			}
			if got := fmt.Sprint(testutil.ToFloat64(k.Metrics.ready) == 1); got != c.ready {
				t.Errorf("the metric of readiness is 1: %s", got)
			}
		})
	}
}
