package provider

import (
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestServiceThatIsRefusedWhileItsAddressIsGivenBackGetsIt(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	svc := loadBalancerService(func(svc *v1.Service) {
		svc.Annotations = map[string]string{"plinth.dev/ips": h.addr.String()}
	})
	if err := h.known.Add(svc); err != nil {
		t.Fatal(err)
	}
	d := h.decide(svc)
	if !d.Refused {
		t.Fatal(d)
	}
	if !h.holdsAny(keyOf(svc)) {
		t.Error("if it went now, nobody would forget that it waits")
	}
	h.queued()
	if err := h.releaseAll(t.Context(), h.key(0), h.svc[0].UID); err != nil {
		t.Fatal(err)
	}
	h.note(svc, d, true) // it is told only now
	if got := h.queued(); !slices.Contains(got, "d/s") {
		t.Errorf("queued %v: it would wait for ever", got)
	}
	if d, err := h.settle(t.Context(), svc, true); err != nil || !slices.Equal(addrs(d.VIPs), []netip.Addr{h.addr}) {
		t.Errorf("it gets %v, %v", d, err)
	}
	h.agree(keyOf(svc))
}
