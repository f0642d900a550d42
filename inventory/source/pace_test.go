package source

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// clock is what a reconciler takes for the time.
type clock struct{ now time.Time }

func (c *clock) time() time.Time { return c.now }

func clocked(k *Reconciler) *clock {
	c := &clock{time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	k.Now = c.time
	return c
}

// oneStored is a reconciler with a clock of the test's, once it has stored an inventory.
func oneStored(t *testing.T) (*fake.Clientset, *Reconciler, *clock) {
	t.Helper()
	client := fake.NewClientset()
	k := reconcilerOf(client)
	now, e := clocked(k), proposed(text("a"))
	k.take(e)
	if err := k.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client, k, now
}

// TestAWriteThatFailsAgainAndAgainBacksOff: for ten minutes the step is called every second, as the watch may have it.
func TestAWriteThatFailsAgainAndAgainBacksOff(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	var log strings.Builder
	k := reconcilerOf(client)
	k.Log = slog.New(slog.NewTextHandler(&log, nil))
	now := clocked(k)
	good := proposed(text("a"))
	k.take(good)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	chain, began := client.ReactionChain, now.now
	var tried []int
	client.PrependReactor("create", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		tried = append(tried, int(now.now.Sub(began).Seconds()))
		return true, nil, errors.New("a policy says no")
	})
	next := proposed(text("b"))
	k.take(next)
	for range 600 {
		err := k.step(ctx)
		if err == nil {
			t.Fatal("the write did not fail")
		}
		k.reporter.failing(ctx, err)
		k.stored.loaded = false // as the watch tells it
		now.now = now.now.Add(time.Second)
	}
	if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543}; !slices.Equal(tried, want) {
		t.Errorf("it was tried at %v, want %v", tried, want)
	}
	if n := strings.Count(log.String(), "a policy says no"); n != 1 {
		t.Errorf("%d lines of log:\n%s", n, log.String())
	}
	checkStatus(t, client, "false", "1", "a policy says no")
	checkStore(t, client, "a policy says no")
	if n, failed := testutil.ToFloat64(k.Metrics.notStored), testutil.ToFloat64(k.Metrics.failed); n != 1 || failed != float64(len(tried)) {
		t.Errorf("the metrics say %v and %v failures", n, failed)
	}

	t.Log("another edit is stored at once")
	client.ReactionChain = chain
	other := proposed(text("c"))
	k.take(other)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	k.reporter.recovered(k.stored.have.generation)
	checkStatus(t, client, "true", "2", "")
	checkStore(t, client, "")
	if n := testutil.ToFloat64(k.Metrics.notStored); n != 0 || !strings.Contains(log.String(), "can keep the inventory again") {
		t.Errorf("the metric says %v, the log\n%s", n, log.String())
	}
}

func checkStore(t *testing.T, client *fake.Clientset, want string) {
	t.Helper()
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), StatusName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := cm.Data[KeyStore]; (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("the status says of the store %q, want %q", got, want)
	}
}

// TestWhatSomebodyTakesAwayAgainAndAgainIsStoredAfterPauses: at once the first time, and at once again when it stood
// for a while.
func TestWhatSomebodyTakesAwayAgainAndAgainIsStoredAfterPauses(t *testing.T) {
	ctx := t.Context()
	client, k, now := oneStored(t)
	began := now.now
	var stored []int
	spoil := func() {
		cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, AcceptedName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if cm.Data[keyInventory] == "{" {
			return
		}
		stored = append(stored, int(now.now.Sub(began).Seconds()))
		cm.Data[keyInventory] = "{"
		if _, err := client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 130 {
		spoil()
		k.stored.loaded = false
		_ = k.step(ctx)
		now.now = now.now.Add(time.Second)
	}
	if want := []int{0, 1, 2, 4, 8, 16, 32, 64, 124}; !slices.Equal(stored, want) {
		t.Errorf("it was stored at %v, want %v", stored, want)
	}
	checkStore(t, client, "by somebody else")

	now.now = now.now.Add(time.Hour)
	k.stored.loaded = false
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	checkStore(t, client, "")
	now.now = now.now.Add(time.Hour)
	spoil()
	k.stored.loaded = false
	if err := k.step(ctx); err != nil {
		t.Errorf("one that stood for an hour is not stored again at once: %v", err)
	}
}

// TestACopyThatSomebodyChangesIsWrittenAfterPauses as what is in force is.
func TestACopyThatSomebodyChangesIsWrittenAfterPauses(t *testing.T) {
	ctx := t.Context()
	client, k, now := oneStored(t)
	client.PrependReactor("update", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		cm := a.(clienttesting.UpdateAction).GetObject().(*v1.ConfigMap)
		if cm.Name == copyName("r0") {
			cm.Labels["mark"] = fmt.Sprint(now.now.Unix())
		}
		return false, nil, nil
	})
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, copyName("r0"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	for range 60 {
		k.stored.loaded = false
		_ = k.step(ctx)
		now.now = now.now.Add(time.Second)
	}
	if n := strings.Count(strings.Join(written(client), " "), "update "+copyName("r0")); n > 8 {
		t.Errorf("it was written %d times in a minute", n)
	}
}
