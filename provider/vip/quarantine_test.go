package vip

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// TestWhatCannotBeWrittenDownKeepsItsObject releases more addresses than the ConfigMap has
// room for: of each, the ConfigMap or the object has to know at any time.
func TestWhatCannotBeWrittenDownKeepsItsObject(t *testing.T) {
	const all = 2*releasedMost + 10
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b := &Controller{ledger: ipam.NewLedger(), released: map[netip.Addr]lb.ServiceKey{}, now: func() time.Time { return now }}
	moved := lb.ServiceKey{Namespace: "d", Name: fmt.Sprint("s", all-1)} // released last, and holds another address
	b.ledger.Hold(netip.MustParseAddr("192.0.2.1"), "", ipam.Holder{Service: moved})
	a := netip.MustParseAddr("10.0.0.0")
	for i := range all {
		k := lb.ServiceKey{Namespace: "d", Name: fmt.Sprint("s", i)}
		b.ledger.Rest(ipam.Rested{Addr: a, Owner: k, Until: now.Add(time.Minute + time.Duration(i)*time.Millisecond)})
		b.released[a] = k
		a = a.Next()
	}
	objects := all
	for _, step := range []struct {
		after               time.Duration
		written, gone, left int
		full                bool
	}{
		{0, releasedMost, releasedMost, all - releasedMost, true},
		{0, releasedMost, 0, all - releasedMost, true},                                         // nothing has ended
		{time.Minute + releasedMost*time.Millisecond, releasedMost, releasedMost + 1, 9, true}, // two have ended unwritten
		{time.Hour, 0, 9, 0, false},
	} {
		now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(step.after)
		data, gone, full := b.releasedData()
		var written []rested
		if err := json.Unmarshal([]byte(data), &written); err != nil {
			t.Fatal(err)
		}
		known := map[netip.Addr]string{}
		for _, r := range written {
			known[r.Address] = r.Owner
		}
		for a := range gone {
			delete(b.released, a)
		}
		for _, r := range b.ledger.Resting() {
			if _, object := b.released[r.Addr]; r.Until.After(now) && !object && known[r.Addr] != r.Owner.String() {
				t.Fatalf("after %v nobody knows of %v", step.after, r.Addr)
			}
		}
		if objects -= len(gone); len(written) > releasedMost || len(gone) != step.gone || objects != step.left || full != step.full {
			t.Errorf("after %v: %d are written down, %d objects go, %d stay, full: %v; want %+v", step.after, len(written), len(gone), objects, full, step)
		}
		if step.after == 0 && known[a.Prev()] == "" {
			t.Error("the address whose owner could take it for its own is not among the first")
		}
	}
}

func TestRestOfAPredecessorWhoseClockWasAheadIsKept(t *testing.T) {
	for _, tt := range []struct {
		name        string
		until, want time.Time
	}{
		{"it is over", noon, time.Time{}},
		{"it goes on", noon.Add(time.Minute), noon.Add(time.Minute)},
		{"it ends later than it could", noon.Add(ipam.RestTime + time.Second), noon.Add(ipam.RestTime)},
		{"it ends much later", noon.Add(48 * time.Hour), noon.Add(ipam.RestTime)},
	} {
		h := newHeld(t)
		data, err := json.Marshal([]rested{{Address: h.addr, Owner: "d/a", Until: tt.until}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.writeReleased(t.Context(), string(data)); err != nil {
			t.Fatal(err)
		}
		if err := h.readReleased(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got time.Time
		for _, r := range h.ledger.Resting() {
			got = r.Until
		}
		if !got.Equal(tt.want) {
			t.Errorf("%s: it rests until %v, want %v", tt.name, got, tt.want)
		}
	}
}
