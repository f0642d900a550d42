package vip

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/provider/event"
)

// TestServiceIsToldThatAStatusShowsTheAddressItAsksFor names the Service only to those of
// its namespace.
func TestServiceIsToldThatAStatusShowsTheAddressItAsksFor(t *testing.T) {
	for namespace, want := range map[string]string{
		"d": "AddressInUse (192.0.2.0, the status of Service d/a shows it; it is free once that is cleared)",
		"e": "AddressInUse (192.0.2.0, the status of a Service of another namespace shows it; it is free once that is cleared)",
	} {
		h := newHeld(t)
		h.observeShownBy(ofAnother(h.svc[0], h.addr.String()))
		asks := h.svc[1].DeepCopy()
		asks.Namespace = namespace
		if got := h.decide(requestOf(asks)).String(); !strings.Contains(got, want) {
			t.Errorf("one of namespace %s is told %q, want %q", namespace, got, want)
		}
	}
}

func TestAddressThatAServiceHoldsIsSaidToBeThatOnes(t *testing.T) {
	h := newHeld(t)
	h.settled(1)
	h.observeShownBy(ofAnother(h.svc[0], h.addr.String()))
	third := h.svc[1].DeepCopy()
	third.Name, third.Annotations["metallb.io/allow-shared-ip"] = "c", "other"
	if got := h.decide(requestOf(third)).String(); !strings.Contains(got, "d/b") || strings.Contains(got, "d/a") {
		t.Errorf("it is told %q", got)
	}
}

func TestAddressThatIsKeptFromAllIsToldOnceOnTheServiceThatShowsIt(t *testing.T) {
	h := newHeld(t)
	recorder := record.NewFakeRecorder(100)
	h.cluster.Recorder, h.cluster.Reports = recorder, event.NewReports(recorder)
	shows := func(svc *v1.Service) func() { return func() { h.tells(svc) } }
	const clears = "kubectl patch service a -n d --subresource=status"
	for _, step := range []struct {
		name string
		do   func()
		want []string // each in the one Event; nil: no Event
	}{
		{"it shows one", shows(ofAnother(h.svc[0], "192.0.2.0")), []string{"Warning StatusNotHeld", "192.0.2.0,", "gives to nobody", clears}},
		{"it is looked at again", func() {}, nil},
		{"it shows another too", shows(ofAnother(h.svc[0], "192.0.2.0", "192.0.2.1")), []string{"192.0.2.0, 192.0.2.1,"}},
		{"it shows none", shows(ofAnother(h.svc[0])), nil},
		{"it shows one again", shows(ofAnother(h.svc[0], "192.0.2.0")), []string{"192.0.2.0,"}},
		{"it is Plinth's to clear", shows(leaving(showing(h.svc[0], "192.0.2.0"))), nil},
	} {
		step.do()
		if err := h.reconcile(t.Context(), "d/a"); err != nil {
			t.Fatal(err)
		}
		if n := len(recorder.Events); n != min(1, len(step.want)) {
			t.Fatalf("%s: %d Events", step.name, n)
		}
		told := ""
		if step.want != nil {
			told = <-recorder.Events
		}
		for _, want := range step.want {
			if !strings.Contains(told, want) {
				t.Errorf("%s: the Event is %q, want %q", step.name, told, want)
			}
		}
	}
	h.tells(ofAnother(h.svc[0], "192.0.2.0"))
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	h.serviceGone(h.svc[0])
	if n := h.cluster.Reports.Open(); n != 0 {
		t.Errorf("%d Services that are gone are remembered", n)
	}
}

// TestAddressIsToldToBeKeptOnceItsHolderIsGone has another Service hold it at first.
func TestAddressIsToldToBeKeptOnceItsHolderIsGone(t *testing.T) {
	h := newHeld(t)
	recorder := record.NewFakeRecorder(100)
	h.cluster.Recorder = &record.FakeRecorder{}
	h.cluster.Reports = event.NewReports(recorder)
	h.settled(1)
	h.tells(ofAnother(h.svc[0], h.addr.String()))
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	if n := len(recorder.Events); n > 0 {
		t.Errorf("%d Events while the address is another's: %q", n, <-recorder.Events)
	}
	h.queued()
	h.gives(1)
	if got := h.queued(); !slices.Contains(got, "d/a") {
		t.Fatalf("queued are %v", got)
	}
	if err := h.reconcile(t.Context(), "d/a"); err != nil {
		t.Fatal(err)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d Events", len(recorder.Events))
	}
}
