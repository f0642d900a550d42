package vip

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// TestWhatCannotBeWrittenDownKeepsItsObject releases more addresses than the ConfigMap has
// room for: of each, the ConfigMap or the object has to know at any time.
func TestWhatCannotBeWrittenDownKeepsItsObject(t *testing.T) {
	const all = 10000 // of some 200 bytes
	h := newHeldOf(t, "10.0.0.0/16")
	now := noon
	h.now = func() time.Time { return now }
	long := strings.Repeat("n", 60)
	var objects []ipam.Object
	for i, a := 0, netip.MustParseAddr("10.0.0.0"); i < all; i, a = i+1, a.Next() {
		k := lb.ServiceKey{Namespace: long, Name: fmt.Sprint(long, i)}
		objects = append(objects, ipam.Object{Addr: a, UID: "u", Version: "1", Parent: k, Holders: []lb.ServiceKey{k}})
	}
	last := objects[all-1]
	moved := last // its Service holds another address, and so could take this one for its own after a restart
	moved.Addr = netip.MustParseAddr("10.0.255.1")
	h.apply(func(s *ipam.State) ipam.Effects { return s.Load(append(objects, moved), nil) })
	for i, o := range objects {
		h.apply(func(s *ipam.State) ipam.Effects {
			_, e := s.ToRelease(o.Addr, o.Parent, "", ipam.Object{}, noon.Add(-ipam.QuarantineTime+time.Minute+time.Duration(i)*time.Millisecond))
			return e
		})
	}
	for _, step := range []struct {
		after time.Duration
		full  bool
	}{{0, true}, {30 * time.Second, true}, {time.Minute + all*2/3*time.Millisecond, false}, {time.Hour, false}} {
		now = noon.Add(step.after)
		full, err := h.released.write(t.Context())
		if err != nil || full != step.full {
			t.Fatalf("after %v: full %v, %v", step.after, full, err)
		}
		stored, err := h.claims.ReadReleased(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		written := map[netip.Addr]bool{}
		for _, r := range stored.Quarantined {
			written[r.Addr] = true
		}
		for _, r := range h.quarantined() {
			if !written[r.Addr] && !h.releasing(r.Addr) {
				t.Fatalf("after %v nobody knows of %v", step.after, r.Addr)
			}
		}
		if !written[last.Addr] && step.after < time.Minute {
			t.Errorf("after %v the address whose owner could take it for its own is not among the first", step.after)
		}
		if h.releasing(last.Addr) {
			t.Errorf("after %v its object is still there", step.after)
		}
	}
}

func TestQuarantineOfAPredecessorWhoseClockWasAheadIsKept(t *testing.T) {
	for _, tt := range []struct {
		name        string
		until, want time.Time
	}{
		{"it is over", noon, time.Time{}},
		{"it goes on", noon.Add(time.Minute), noon.Add(time.Minute)},
		{"it ends later than it could", noon.Add(ipam.QuarantineTime + time.Second), noon.Add(ipam.QuarantineTime)},
		{"it ends much later", noon.Add(48 * time.Hour), noon.Add(ipam.QuarantineTime)},
	} {
		h := newHeld(t)
		if _, err := h.claims.WriteReleased(t.Context(), h.released.last, []ipam.Quarantined{{Addr: h.addr, Owner: h.key(0), Until: tt.until}}); err != nil {
			t.Fatal(err)
		}
		h.loads()
		var got time.Time
		for _, r := range h.quarantined() {
			got = r.Until
		}
		if !got.Equal(tt.want) {
			t.Errorf("%s: it is in quarantine until %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWhatAnotherLeaderReleasedIsNotWrittenOver has two leaders at work, as there must never be.
func TestWhatAnotherLeaderReleasedIsNotWrittenOver(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	other := lb.ServiceKey{Namespace: "d", Name: "other"}
	theirs := []ipam.Quarantined{{Addr: netip.MustParseAddr("192.0.2.3"), Owner: other, Until: noon.Add(time.Minute)}}
	if _, err := h.claims.WriteReleased(t.Context(), h.released.last, theirs); err != nil {
		t.Fatal(err)
	}
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	h.departed() // which finds that there is a ConfigMap now
	stored, err := h.claims.ReadReleased(t.Context())
	if err != nil || len(stored.Quarantined) != 2 {
		t.Errorf("written down are %v, %v", stored.Quarantined, err)
	}
	if got := h.quarantined(); len(got) != 2 {
		t.Errorf("in quarantine are %v", got)
	}
}

// TestWhatAnotherLeaderReleasedIsWrittenDownThoughItIsHeldHere until this one has released it too.
func TestWhatAnotherLeaderReleasedIsWrittenDownThoughItIsHeldHere(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	theirs := []ipam.Quarantined{{Addr: h.addr, Owner: h.key(0), Until: noon.Add(time.Minute)}}
	if _, err := h.claims.WriteReleased(t.Context(), h.released.last, theirs); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.departed()
		if stored, err := h.claims.ReadReleased(t.Context()); err != nil || len(stored.Quarantined) != 1 {
			t.Errorf("written down are %v, %v", stored.Quarantined, err)
		}
	}
}

// TestWhatAPredecessorWroteDownStaysSoWhileItsClaimIsThereYet is of one that removes the claim a
// moment after its successor has listed it: should the successor end before it knows, only the
// ConfigMap tells of the address, for as long as a quarantine is, whatever its clock said.
func TestWhatAPredecessorWroteDownStaysSoWhileItsClaimIsThereYet(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	theirs := []ipam.Quarantined{{Addr: h.addr, Owner: h.key(0), Until: noon.Add(48 * time.Hour)}}
	if _, err := h.claims.WriteReleased(t.Context(), h.released.last, theirs); err != nil {
		t.Fatal(err)
	}
	h.loads()
	for _, at := range []struct {
		now  time.Time
		want int
	}{{noon, 1}, {noon.Add(30 * time.Second), 1}, {noon.Add(11 * time.Minute), 0}} {
		h.now = func() time.Time { return at.now }
		h.departed()
		if stored, err := h.claims.ReadReleased(t.Context()); err != nil || len(stored.Quarantined) != at.want {
			t.Errorf("%v later written down are %v, %v", at.now.Sub(noon), stored.Quarantined, err)
		}
	}
}

// TestWhatIsQuarantinedHereAndThenHeldIsWrittenDownOn has a watch that is late show a claim that
// another leader has removed already.
func TestWhatIsQuarantinedHereAndThenHeldIsWrittenDownOn(t *testing.T) {
	h := newHeld(t)
	h.settled(0)
	late := h.ipAddress()
	h.loads()
	if err := h.client.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), "", h.addr.String()); err != nil {
		t.Fatal(err)
	}
	sink{h.store}.ObserveDeleted(h.addr, "", "")
	if err := h.clearAndRelease(t.Context(), h.key(0), string(h.svc[0].UID)); err != nil {
		t.Fatal(err)
	}
	theirs := []ipam.Quarantined{{Addr: h.addr, Owner: h.key(0), Until: noon.Add(time.Minute)}}
	if _, err := h.claims.WriteReleased(t.Context(), claim.Released{}, theirs); err != nil {
		t.Fatal(err)
	}
	h.departed()
	h.observe(late, "", false)
	h.departed()
	if stored, err := h.claims.ReadReleased(t.Context()); err != nil || len(stored.Quarantined) != 1 {
		t.Errorf("written down are %v, %v", stored.Quarantined, err)
	}
}
