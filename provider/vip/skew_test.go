package vip

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/claim"
)

// writesOf counts what was written of a kind of object.
func (h *held) writesOf(resource string) (n int) {
	for _, a := range h.client.Actions() {
		if a.GetResource().Resource == resource && !slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) {
			n++
		}
	}
	return n
}

// TestNothingIsGivenOrTakenWhileANewerVersionSaysWhoHolds: of a claim, or of what was released.
func TestNothingIsGivenOrTakenWhileANewerVersionSaysWhoHolds(t *testing.T) {
	newer := map[string]string{inventory.AnnotationFormat: "2"}
	for name, store := range map[string]func(h *held) (setBack func()){
		"a claim": func(h *held) func() {
			o := claim.New(netip.MustParseAddr("192.0.2.1"), "public", h.key(0), string(h.svc[0].UID))
			o.Annotations[inventory.AnnotationFormat] = "2"
			tracked(h, func() error { return h.client.Tracker().Add(o) })
			return func() {
				o.Annotations[inventory.AnnotationFormat] = "1"
				tracked(h, func() error {
					return h.client.Tracker().Update(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), o, "")
				})
			}
		},
		"what was released": func(h *held) func() {
			m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.options.Namespace, Name: claim.ReleasedName, Annotations: newer}, Data: map[string]string{"released.json": "{}"}}
			tracked(h, func() error { return h.client.Tracker().Add(m) })
			return func() {
				tracked(h, func() error {
					return h.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("configmaps"), m.Namespace, m.Name)
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			setBack := store(h)
			if err := h.begins(); !errors.As(err, new(*inventory.NewerFormatError)) {
				t.Fatalf("it begins all the same: %v", err)
			}
			for _, resource := range []string{"ipaddresses", "services", "configmaps"} {
				if n := h.writesOf(resource); n > 0 {
					t.Errorf("%d writes of %s", n, resource)
				}
			}
			setBack()
			if err := h.begins(); err != nil {
				t.Errorf("it does not begin: %v", err)
			}
		})
	}
}

func tracked(h *held, f func() error) {
	h.t.Helper()
	if err := f(); err != nil {
		h.t.Fatal(err)
	}
}

// TestALeaderWritesNothingOverWhatANewerVersionReleased: the object of what it released itself
// stays, by which whoever leads next knows of it.
func TestALeaderWritesNothingOverWhatANewerVersionReleased(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.options.Namespace, Name: claim.ReleasedName, Annotations: map[string]string{inventory.AnnotationFormat: "2"}}}
	tracked(h, func() error { return h.client.Tracker().Add(m) })
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.released.write(t.Context()); !errors.As(err, new(*inventory.NewerFormatError)) {
		t.Errorf("it goes on: %v", err)
	}
	now, err := h.client.CoreV1().ConfigMaps(m.Namespace).Get(t.Context(), m.Name, metav1.GetOptions{})
	if err != nil || len(now.Data) > 0 || now.Annotations[inventory.AnnotationFormat] != "2" {
		t.Errorf("it says %v %v, %v", now.Annotations, now.Data, err)
	}
	if o := h.ipAddress(); o.Name != h.addr.String() {
		t.Error(o)
	}
}

// TestAClaimThatANewerVersionWritesIsKnownAsBefore to who leads and reads it live.
func TestAClaimThatANewerVersionWritesIsKnownAsBefore(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	before, o := h.object(h.addr), h.ipAddress()
	o.ResourceVersion, o.Annotations[inventory.AnnotationFormat], o.Annotations[lb.SharedByAnnotation] = "900", "2", "in another form"
	h.observe(o, "", true)
	h.observe(o, "", false)
	if d := cmp.Diff(before, h.object(h.addr), cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Error(d)
	}
	if !h.state.IsHolder(h.addr, h.key(0)) {
		t.Error("its holder holds it no more")
	}
}
