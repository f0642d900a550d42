package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/proxy"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/wait"
)

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait.True(t, 10*time.Second, time.Millisecond, what, func() (bool, string) { return ok(), "it is not so" })
}

func key(name string) lb.ServiceKey { return lb.ServiceKey{Namespace: "prod", Name: name} }

func vip(s string) netip.Addr { return netip.MustParseAddr(s) }

// world is what a pass touches. It remembers in which order.
type world struct {
	calls    []string
	said     []bgp.Config
	states   []bgp.SessionState
	routes   []routing.Route
	speaks   error // of what is announced
	refuses  error // of what is routed
	tunneled routing.Tunnel
}

func (w *world) State(context.Context) []bgp.SessionState { return w.states }

func (w *world) Changed() <-chan struct{} { return nil }

func (w *world) Stop(context.Context, string) error { return nil }

func (w *world) Leave(context.Context) error { return nil }

func (w *world) Set(_ context.Context, c bgp.Config) error {
	w.calls, w.said = append(w.calls, "announce"), append(w.said, c)
	return w.speaks
}

// kernelOf is the same world as a table of routes.
type kernelOf struct{ *world }

func (k kernelOf) Set(_ context.Context, routes []routing.Route) (kernel.State, error) {
	k.calls, k.routes = append(k.calls, "route"), routes
	return kernel.State{Want: len(routes), Have: len(routes)}, k.refuses
}

func (k kernelOf) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

func (k kernelOf) Invalidate() {}

func (k kernelOf) Close() {}

func (k kernelOf) SetTunnel(_ context.Context, t routing.Tunnel) error {
	k.calls, k.tunneled = append(k.calls, fmt.Sprintf("tunnel %v", t.Exists())), t
	return nil
}

// agentIn is an agent that knows what an earlier process left, in a world of the test's.
func agentIn(t *testing.T, w *world) *Agent {
	t.Helper()
	a := New(Options{NodeName: "nuc1", Client: fake.NewClientset(), StateDir: t.TempDir()})
	var err error
	if a.disk.saver.Dir, err = disk.Open(a.o.StateDir, disk.Owner{Node: "nuc1"}); err != nil {
		t.Fatal(err)
	}
	a.outside.speaker, a.outside.table = w, kernelOf{w}
	a.schedule.timer = time.NewTimer(time.Hour)
	a.routers.down, a.routers.inherited = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	in := agenttest.SomeInputs(t)
	a.known.restored = &in
	return a
}

// hears has the agent hear of kube-proxy's health.
func (a *Agent) hears(word proxy.Answer) { a.kubeProxy.health.Observe(word, time.Now()) }

// prefixes are those of all sessions that were announced the nth time.
func (w *world) prefixes(n int) (all []netip.Prefix) {
	for _, s := range w.said[n].Sessions {
		for ad := range s.Advertisements.All() {
			all = append(all, ad.Prefix)
		}
	}
	return all
}

func (w *world) since() (calls []string) {
	calls, w.calls = w.calls, nil
	return calls
}

func TestAPassAnnouncesAndRoutesWhatIsPlanned(t *testing.T) {
	w := &world{}
	a := agentIn(t, w)
	if a.pass(t.Context()); len(w.calls) > 0 || a.waiting.what != "kube-proxy's health" {
		t.Fatalf("before kube-proxy was asked it did %v and waits for %q", w.calls, a.waiting.what)
	}
	a.hears(proxy.Serves)
	a.pass(t.Context())
	if got := fmt.Sprint(w.since()); got != "[route tunnel false announce]" || !a.planned.once {
		t.Fatalf("it did %v", got)
	}
	if got := fmt.Sprint(w.prefixes(0)); got != "[192.168.50.40/32]" {
		t.Errorf("announced %v", got)
	}
	if !slices.ContainsFunc(w.routes, func(r routing.Route) bool { return r.Dst.String() == "192.168.50.32/27" }) {
		t.Errorf("routed %v", w.routes)
	}
}

func TestAPlanThatWasAnnouncedIsNotAnnouncedAgainUntilItFails(t *testing.T) {
	w := &world{speaks: errors.New("no session")}
	a := agentIn(t, w)
	a.hears(proxy.Serves)
	for _, want := range []string{"announce", "announce", ""} {
		a.pass(t.Context())
		calls := w.since()
		if got := slices.Contains(calls, "announce"); got != (want != "") {
			t.Errorf("it did %v, want %q", calls, want)
		}
		if failed := a.reporting.failure != ""; failed != (w.speaks != nil) || failed && a.schedule.due.IsZero() {
			t.Errorf("failed with %q, and is made again at %v", a.reporting.failure, a.schedule.due)
		}
		if len(w.said) == 1 {
			w.speaks = nil
		}
	}
}

func TestAKernelThatRefusesRoutesKeepsNoRouterWaiting(t *testing.T) {
	w := &world{refuses: errors.New("no buffer space")}
	a := agentIn(t, w)
	a.hears(proxy.Serves)
	a.pass(t.Context())
	if len(w.said) != 1 || a.reporting.failure != "no buffer space" || a.schedule.retry != retryFirst {
		t.Errorf("announced %d times; failed with %q, again after %v", len(w.said), a.reporting.failure, a.schedule.retry)
	}
}

func TestAnUnhealthyProxyWithdrawsOnTheNextPass(t *testing.T) {
	w := &world{}
	a := agentIn(t, w)
	a.hears(proxy.Serves)
	a.pass(t.Context())
	for range proxy.UnhealthyAfter {
		a.hears(proxy.Unhealthy)
	}
	a.pass(t.Context())
	if len(w.said) != 2 || len(w.prefixes(1)) > 0 {
		t.Errorf("announced %d times, then %v", len(w.said), w.prefixes(len(w.said)-1))
	}
}

// Routes through a tunnel need it, and go before it does.
func TestATunnelIsThereForAsLongAsItsRoutes(t *testing.T) {
	w := &world{}
	a := agentIn(t, w)
	a.planned.plan.Routing.Tunnel = routing.Tunnel{Local: vip("192.168.1.11")}
	for _, want := range []string{"[tunnel true route announce]", "[route tunnel false]"} {
		if err := a.apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.since()); got != want {
			t.Errorf("it did %s, want %s", got, want)
		}
		a.planned.plan.Routing.Tunnel = routing.Tunnel{}
	}
}

func TestARouterThatIsLostIsPlannedForAtOnce(t *testing.T) {
	now := time.Now()
	w := &world{states: []bgp.SessionState{
		{Key: bgp.Key{Router: "a", Addr: vip("192.168.1.1")}, Since: now.Add(-time.Hour)},
		{Key: bgp.Key{Router: "b", Addr: vip("192.168.1.2")}, Since: now.Add(-time.Hour), Up: true},
	}}
	a := agentIn(t, w)
	a.hears(proxy.Serves)
	a.pass(t.Context())
	if !a.routers.down[vip("192.168.1.1")] || a.routers.down[vip("192.168.1.2")] || !a.routers.changed || len(a.dirty) == 0 {
		t.Errorf("lost are %v, and another pass is due: %v", a.routers.down, len(a.dirty) > 0)
	}
}
