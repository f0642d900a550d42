package vip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/lb"
)

// asksFor has the first Service ask for these addresses.
func (h *held) asksFor(list string) *v1.Service {
	h.t.Helper()
	svc := h.svc[0].DeepCopy()
	svc.Annotations = map[string]string{"plinth.dev/ips": list}
	h.svc[0] = svc
	h.edited(svc)
	return svc
}

func (h *held) holdersOf(list string) (all []string) {
	for s := range strings.SplitSeq(list, ",") {
		o := h.object(netip.MustParseAddr(s))
		for _, k := range o.Holders {
			all = append(all, s+" "+k.String())
		}
	}
	return all
}

// TestServiceHasAClaimForEachAddressThatItAsksFor, and its status shows them in its order.
func TestServiceHasAClaimForEachAddressThatItAsksFor(t *testing.T) {
	h := newHeld(t)
	d, err := h.assign(t.Context(), h.asksFor("192.0.2.2, 192.0.2.0,192.0.2.3"))
	if want := []string{"192.0.2.2", "192.0.2.0", "192.0.2.3"}; err != nil || !slices.Equal(texts(d.Addrs()), want) {
		t.Fatalf("it gets %s, %v", d, err)
	}
	if got, want := h.holdersOf("192.0.2.0,192.0.2.1,192.0.2.2,192.0.2.3"), []string{"192.0.2.0 d/a", "192.0.2.2 d/a", "192.0.2.3 d/a"}; !slices.Equal(got, want) {
		t.Errorf("claims are %q, want %q", got, want)
	}
	h.svc[0].Status.LoadBalancer.Ingress = ingressOf(d.Addrs())
	h.edited(h.svc[0])

	d, err = h.assign(t.Context(), h.asksFor("192.0.2.3,192.0.2.2"))
	if err != nil || !slices.Equal(texts(d.Addrs()), []string{"192.0.2.3", "192.0.2.2"}) || !slices.Equal(texts(d.Release), []string{"192.0.2.0"}) {
		t.Fatalf("it gets %s, %v", d, err)
	}
	if got := h.holdersOf("192.0.2.0"); len(got) != 1 {
		t.Errorf("while its status shows it, an address is released: %q", got)
	}
	h.svc[0].Status.LoadBalancer.Ingress = ingressOf(d.Addrs())
	h.edited(h.svc[0])
	if _, err := h.assign(t.Context(), h.svc[0]); err != nil {
		t.Fatal(err)
	}
	h.departed()
	if got := h.holdersOf("192.0.2.0"); len(got) > 0 {
		t.Errorf("it is asked for no more, and held: %q", got)
	}
}

// TestServiceHasAllAddressesThatItAsksForOrNoneOfThem: another program is faster with the second.
func TestServiceHasAllAddressesThatItAsksForOrNoneOfThem(t *testing.T) {
	h := newHeld(t)
	h.takenByAnotherProgram("192.0.2.2")
	d, err := h.assign(t.Context(), h.asksFor("192.0.2.0,192.0.2.2"))
	if err != nil || !d.Refused || len(d.VIPs) > 0 || d.Denials[0].Reason != lb.AddressInUse {
		t.Fatalf("it gets %s, %v", d, err)
	}
	h.departed()
	if got := h.holdersOf("192.0.2.0,192.0.2.2"); len(got) > 0 {
		t.Errorf("claims are left of it: %q", got)
	}
}

func texts(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}
