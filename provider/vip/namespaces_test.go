package vip

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

func namespaceOf(team string) *v1.Namespace {
	ns := &v1.Namespace{}
	ns.Name, ns.Labels, ns.Annotations = "d", map[string]string{"team": team}, map[string]string{"note": "long"}
	ns.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	return ns
}

// TestServicesFollowTheLabelsOfTheirNamespace: who waits is served, who holds something keeps it and
// is told once.
func TestServicesFollowTheLabelsOfTheirNamespace(t *testing.T) {
	h := newHeldWith(t, "{name: team, addresses: [192.0.2.0/30], namespaceSelectors: [{matchLabels: {team: x}}]}")
	events := record.NewFakeRecorder(9)
	h.cluster.Recorder = events
	handler := h.namespacesChange()
	handler.OnAdd(namespaceOf("y"), true)
	d, err := h.assign(t.Context(), h.svc[0])
	if err != nil || !d.Refused || d.Denials[0].Reason != lb.NamespaceNotAllowed {
		t.Fatalf("a namespace of another team got %s, %v", d, err)
	}

	handler.OnUpdate(namespaceOf("y"), namespaceOf("x"))
	if n := h.queue.Len(); n != 1 {
		t.Errorf("%d Services are looked at again", n)
	}
	h.settled(0)

	for range 2 {
		handler.OnUpdate(namespaceOf("x"), namespaceOf("y"))
	}
	h.settled(0)
	close(events.Events)
	var said []string
	for e := range events.Events {
		said = append(said, e)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "Warning NamespaceNotAllowed 192.0.2.0 is kept and announced") {
		t.Errorf("it is told %q", said)
	}
}

// TestANamespaceThatTheCacheLacksIsReadLive: it and its Service are made by one command.
func TestANamespaceThatTheCacheLacksIsReadLive(t *testing.T) {
	h := newHeldWith(t, `{name: team, addresses: [192.0.2.0/30], namespaceSelectors: [{matchLabels: {team: x}}]}, {name: z-others, addresses: [192.0.2.4/30]}`)
	svc := h.svc[0].DeepCopy()
	svc.Annotations = nil
	if _, err := h.client.CoreV1().Namespaces().Create(t.Context(), namespaceOf("x"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d, err := h.assign(t.Context(), svc); err != nil || d.VIPs[0].Pool != "team" {
			t.Errorf("it got %s, %v", d, err)
		}
	}
	reads := slices.DeleteFunc(h.client.Actions(), func(a clienttesting.Action) bool { return !a.Matches("get", "namespaces") })
	if len(reads) != 1 {
		t.Errorf("it was read %d times", len(reads))
	}
	h.namespacesChange().OnDelete(namespaceOf("x"))
	if ask(h.store, func(s *ipam.State) bool { return s.HasNamespace("d") }) {
		t.Error("it is known though it is gone")
	}
	h.failing(1, "get", "namespaces")
	if d, err := h.assign(t.Context(), svc); err == nil {
		t.Errorf("without an answer it got %s", d)
	}
}

// TestPoolsThatSelectNamespacesWaitForTheseAndNoOthersDo: an older role has no right to list them.
func TestPoolsThatSelectNamespacesWaitForTheseAndNoOthersDo(t *testing.T) {
	for pool, want := range map[string]error{
		"{name: public, addresses: [192.0.2.0/30], namespaces: [d]}":                              nil,
		"{name: team, addresses: [192.0.2.0/30], namespaceSelectors: [{matchLabels: {team: x}}]}": errNamespaces,
	} {
		h := newHeldWith(t, pool)
		h.namespacesKnown = func() bool { return false }
		if err := h.setPools(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", pool, err, want)
		}
		h.namespacesKnown = func() bool { return true }
		if err := h.setPools(t.Context()); err != nil {
			t.Errorf("%s: %v once they are known", pool, err)
		}
	}
}

func TestOfANamespaceTheLabelsAreKept(t *testing.T) {
	obj, err := TrimNamespace(namespaceOf("x"))
	ns := obj.(*v1.Namespace)
	if err != nil || ns.Name != "d" || ns.Labels["team"] != "x" || ns.Annotations != nil || ns.ManagedFields != nil {
		t.Errorf("%+v, %v", ns, err)
	}
}
