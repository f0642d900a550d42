package vip

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is the IPAddress object as it is.
func (h *held) object() *networkingv1.IPAddress {
	h.t.Helper()
	o, err := h.client.NetworkingV1().IPAddresses().Get(h.t.Context(), h.addr.String(), metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// queued empties the queue and returns what was in it.
func (h *held) queued() (all []string) {
	for h.queue.Len() > 0 {
		name, _ := h.queue.Get()
		h.queue.Done(name)
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestClaimThatIsMissingInALaterListIsGone(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	s := newClaimStore(h.Controller)
	if err := s.Replace([]any{h.object()}, "1"); err != nil || !closed(s.filled) {
		t.Fatal("the first list was not taken in", err)
	}
	h.queued()
	if err := s.Replace(nil, "2"); err != nil {
		t.Fatal(err)
	}
	if _, known := h.claimOf(h.addr); known {
		t.Error("the claim is still known")
	}
	if got := h.queued(); !slices.Equal(got, []string{"d/a"}) {
		t.Errorf("queued %v; its holder is to take it again", got)
	}
}

func TestClaimThatNoListHasShownYetIsNotMissing(t *testing.T) {
	h := newHeld(t)
	s := newClaimStore(h.Controller)
	if err := s.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	h.settled(0) // by a write, of which the watch has not told
	if err := s.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	h.agree(h.key(0))
}

func TestClaimThatTheWatchShowsGoneIsGone(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	s, o := newClaimStore(h.Controller), h.object()
	earlier := o.DeepCopy()
	earlier.UID = "an earlier one"
	for _, step := range []struct {
		do    func(any) error
		obj   *networkingv1.IPAddress
		known bool
	}{{s.Add, o, true}, {s.Update, o, true}, {s.Delete, earlier, true}, {s.Delete, o, false}} {
		if err := step.do(step.obj); err != nil {
			t.Fatal(err)
		}
		if _, known := h.claimOf(h.addr); known != step.known {
			t.Fatalf("after object %q: known %v, want %v", step.obj.UID, known, step.known)
		}
	}
}

func TestClaimThatIsShownAfterItsSuccessorIsNotBelieved(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	s, earlier := newClaimStore(h.Controller), h.object()
	if err := h.relinquishHeld(t.Context(), h.key(0), h.svc[0].UID); err != nil {
		t.Fatal(err)
	}
	h.departed()
	h.settled(1)
	if err := s.Update(earlier); err != nil { // the watch lags
		t.Fatal(err)
	}
	h.agree(h.key(1))
	h.wrote(h.addr, earlier) // as does the answer to a write
	h.agree(h.key(1))
}

// An API server that was started on a backup refuses what watches until it has read its
// roles. Who is refused lists anew, and then knows nothing that is newer than what there is.
func TestAListOlderThanWhatWasSeenEndsTheProcess(t *testing.T) {
	h := newHeld(t)
	ended := make(chan struct{})
	h.options.Restart = func() { close(ended) }
	h.settled(0)
	s, o := newClaimStore(h.Controller), h.object()
	o.ResourceVersion = "7"
	for _, version := range []string{"9", "9", "100"} {
		if err := s.Replace([]any{o}, version); err != nil || len(h.wentBack) > 0 {
			t.Fatal("a list of version", version, err, "is none of a restore")
		}
	}
	later := o.DeepCopy()
	later.ResourceVersion = "120"
	if err := s.Update(later); err != nil {
		t.Fatal(err)
	}
	go h.watchForRestore(t.Context())
	if err := s.Replace(nil, "119"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the process has not ended")
	}
	if _, known := h.claimOf(h.addr); !known {
		t.Error("what is to be saved of the time before was forgotten")
	}
}
