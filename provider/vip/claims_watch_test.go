package vip

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/provider/claim"
)

// TestWhatAnotherLeaderGaveStays has d/b about to take the address that another leader
// gives d/a at that moment.
func TestWhatAnotherLeaderGaveStays(t *testing.T) {
	for _, shared := range []bool{false, true} {
		h := newHeld(t)
		if !shared {
			h.svc[0].Annotations, h.svc[1].Annotations = nil, nil
		}
		d := h.decide(requestOf(h.svc[1]))
		if !slices.Equal(d.Addrs(), []netip.Addr{h.addr}) {
			t.Fatal(d)
		}
		if _, err := h.client.NetworkingV1().IPAddresses().Create(t.Context(), claim.New(h.addr, "public", h.key(0), string(h.svc[0].UID)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := h.refresh(t.Context(), h.addr); err != nil {
			t.Fatal(err)
		}
		if got := h.queued(); slices.Contains(got, "d/b") == shared {
			t.Errorf("shared %v: queued %v", shared, got)
		}
		h.settled(0)
		if acquired, err := h.acquireAll(t.Context(), requestOf(h.svc[1]), d); acquired != shared || err != nil {
			t.Fatalf("shared %v: acquired %v, %v", shared, acquired, err)
		}
		if shared {
			h.agree(h.key(0), h.key(1))
			continue
		}
		h.agree(h.key(0))
		d, err := h.assign(t.Context(), h.svc[1])
		if want := netip.MustParseAddr("192.0.2.1"); err != nil || !slices.Equal(d.Addrs(), []netip.Addr{want}) {
			t.Errorf("the other gets %v, %v", d, err)
		}
	}
}

// ipAddress is the IPAddress object as it is.
func (h *held) ipAddress() *networkingv1.IPAddress {
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
	s := h.follow()
	if err := s.Replace([]any{h.ipAddress()}, "1"); err != nil {
		t.Fatal(err)
	}
	h.queued()
	if err := s.Replace(nil, "2"); err != nil {
		t.Fatal(err)
	}
	if known := h.object(h.addr).UID != ""; known {
		t.Error("the claim is still known")
	}
	if got := h.queued(); !slices.Equal(got, []string{"d/a"}) {
		t.Errorf("queued %v; its holder is to take it again", got)
	}
}

func TestClaimThatNoListHasShownYetIsNotMissing(t *testing.T) {
	h := newHeld(t)
	h.client.changes = 5
	s := h.follow()
	if err := s.Replace(nil, "5"); err != nil {
		t.Fatal(err)
	}
	h.settled(0) // by a write, of which the watch has not told
	if err := s.Replace(nil, "5"); err != nil {
		t.Fatal(err)
	}
	h.agree(h.key(0))
}

func TestClaimThatTheWatchShowsGoneIsGone(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	s, o := h.follow(), h.ipAddress()
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
		if known := h.object(h.addr).UID != ""; known != step.known {
			t.Fatalf("after object %q: known %v, want %v", step.obj.UID, known, step.known)
		}
	}
}

func TestClaimThatIsShownAfterItsSuccessorIsNotBelieved(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	s, earlier := h.follow(), h.ipAddress()
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	h.departed()
	h.settled(1)
	if err := s.Update(earlier); err != nil { // the watch lags
		t.Fatal(err)
	}
	h.agree(h.key(1))
	if _, err := h.wrote(t.Context(), h.addr, h.deletionsTold(), earlier, nil); err != nil { // as does the answer to a write
		t.Fatal(err)
	}
	h.agree(h.key(1))
}

// TestAnswerThatComesAfterTheWatchShowedTheClaimGone is of a claim that somebody deletes while an
// answer that shows it is under way: nobody would look at it again for five minutes.
func TestAnswerThatComesAfterTheWatchShowedTheClaimGone(t *testing.T) {
	serve := func(h *held) error { _, err := h.assign(h.t.Context(), h.svc[0]); return err }
	for verb, does := range map[string]struct {
		known bool // there is a claim before
		do    func(*held) error
	}{
		"create": {false, serve},
		"patch":  {true, serve}, // renews it, since no status shows it
		"get":    {true, func(h *held) error { return h.refresh(h.t.Context(), h.addr) }},
		"list":   {true, func(h *held) error { return h.compare(h.t.Context()) }},
	} {
		for told, tell := range map[string]func(watch *claim.Mirror, o, gone *networkingv1.IPAddress) error{
			"gone": func(watch *claim.Mirror, o, gone *networkingv1.IPAddress) error {
				return errors.Join(watch.Add(o), watch.Delete(gone))
			},
			"by a list": func(watch *claim.Mirror, _, gone *networkingv1.IPAddress) error {
				return watch.Replace(nil, gone.ResourceVersion)
			},
		} {
			name := verb + ", told " + told
			h := newHeld(t)
			if does.known {
				h.settled(0)
			}
			watch, gone := h.follow(), h.addr.String()
			h.client.answering = func(asked string, o networkingv1.IPAddress) {
				if asked != verb {
					t.Fatalf("%s: the first answer is that of a %s", name, asked)
				}
				if err := h.client.Clientset.NetworkingV1().IPAddresses().Delete(t.Context(), o.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				gone = string(o.UID)
				h.client.changes++
				deleted := o.DeepCopy()
				deleted.ResourceVersion = strconv.Itoa(h.client.changes)
				if err := tell(watch, &o, deleted); err != nil {
					t.Fatal(err)
				}
			}
			if err := does.do(h); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if known := h.object(h.addr).UID; known == gone {
				t.Errorf("%s: claim %q is gone, and known", name, gone)
			}
			if err := serve(h); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			h.agree(h.key(0))
		}
	}
}

// TestTheAuditTakesInWhatTheStateLacks although the watch tells that another claim is gone meanwhile, and no
// later list would be another's.
func TestTheAuditTakesInWhatTheStateLacks(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	watch, there := h.follow(), h.ipAddress()
	sink{h.store}.ObserveDeleted(h.addr, "", "") // by a read that was too early
	h.client.answering = func(string, networkingv1.IPAddress) {
		other := claim.New(netip.MustParseAddr("192.0.2.1"), "public", h.key(1), "service b")
		other.UID, other.ResourceVersion = "another", "900"
		if err := watch.Delete(other); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.compare(t.Context()); err != nil || h.object(h.addr).UID != string(there.UID) {
		t.Errorf("it knows %q, %v", h.object(h.addr).UID, err)
	}
}
