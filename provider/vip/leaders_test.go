package vip

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/provider/claim"
)

// claimedByAnotherLeader has another leader have given the first Service the address.
func (h *held) claimedByAnotherLeader() {
	h.t.Helper()
	obj, err := h.client.NetworkingV1().IPAddresses().Create(h.t.Context(), claim.New(h.addr, "public", h.key(0), string(h.svc[0].UID)), metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.observe(obj, "", false)
}

func TestWhatAServiceAsksForByNowIsNotReleasedByALeaderThatReadItBefore(t *testing.T) {
	h := newHeld(t)
	h.claimedByAnotherLeader()
	before := h.svc[0].DeepCopy()
	before.Annotations = map[string]string{"plinth.dev/ips": "192.0.2.2"}
	if _, err := h.assign(t.Context(), before); !apierrors.IsConflict(err) {
		t.Errorf("it is settled by what it asked for before: %v", err)
	}
	h.departed()
	if o := h.object(h.addr); !o.HeldBy(h.key(0)) {
		t.Errorf("%v is released: %v", h.addr, o)
	}
}

func TestServiceMovesThoughTheCacheHasLessOfItThanTheAPIServer(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	svc := h.svc[0].DeepCopy()
	svc.CreationTimestamp = metav1.Time{Time: noon.In(time.FixedZone("elsewhere", 3600))}
	svc.Annotations = map[string]string{"plinth.dev/ips": "192.0.2.2", v1.LastAppliedConfigAnnotation: "{}"}
	svc.Spec.Selector, svc.Spec.Ports[0].NodePort = map[string]string{"app": "a"}, 30080
	h.edited(svc)
	cached := svc.DeepCopy()
	cached.CreationTimestamp = metav1.Time{Time: noon}
	if _, err := TrimService(cached); err != nil {
		t.Fatal(err)
	}
	if d, err := h.assign(t.Context(), cached); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{netip.MustParseAddr("192.0.2.2")}) {
		t.Errorf("it gets %v, %v", d, err)
	}
	h.departed()
	h.agree()
}

func TestClaimStaysThatAnotherLeaderServesAgain(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	if !h.releasing(h.addr) {
		t.Fatal("it is not about to be removed")
	}
	h.svc[0].Status.LoadBalancer.Ingress = ingressOf([]netip.Addr{h.addr})
	h.edited(h.svc[0])
	h.departed()
	h.agree(h.key(0))
	if d, err := h.assign(t.Context(), h.svc[1]); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
		t.Errorf("who may share it gets %v, %v", d, err)
	}
	h.agree(h.key(0), h.key(1))
}
