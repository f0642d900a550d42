package vip

import (
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatAnotherLeaderGaveStays has d/b about to take the address that another leader
// gives d/a at that moment.
func TestWhatAnotherLeaderGaveStays(t *testing.T) {
	for _, shared := range []bool{false, true} {
		h := newHeld(t)
		if !shared {
			h.svc[0].Annotations, h.svc[1].Annotations = nil, nil
		}
		d := h.decide(h.svc[1])
		if !slices.Equal(addrs(d.VIPs), []netip.Addr{h.addr}) {
			t.Fatal(d)
		}
		if _, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), newClaim(h.addr, "public", h.key(0), h.svc[0].UID), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := h.look(t.Context(), h.addr); err != nil {
			t.Fatal(err)
		}
		if got := h.queued(); slices.Contains(got, "d/b") == shared {
			t.Errorf("shared %v: queued %v", shared, got)
		}
		h.settled(0)
		if acquired, err := h.acquireAll(t.Context(), h.svc[1], d); acquired != shared || err != nil {
			t.Fatalf("shared %v: acquired %v, %v", shared, acquired, err)
		}
		if shared {
			h.agree(h.key(0), h.key(1))
			continue
		}
		h.agree(h.key(0))
		d, err := h.settle(t.Context(), h.svc[1])
		if want := netip.MustParseAddr("192.0.2.1"); err != nil || !slices.Equal(addrs(d.VIPs), []netip.Addr{want}) {
			t.Errorf("the other gets %v, %v", d, err)
		}
	}
}
