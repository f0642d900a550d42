package bgp

import (
	"testing"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/inventory"
)

// Over one hop a TTL of 255 is demanded in any case (RFC 5881, section 5).
func TestBFDOverSeveralHopsDemandsTheTTLOfItsSession(t *testing.T) {
	for _, tt := range []struct {
		hops     uint8
		security bool
		multihop bool
		least    uint8
	}{
		{0, false, false, 0},
		{1, true, false, 0},
		{2, false, true, 0}, // BIRD sends a TTL of 64
		{2, true, true, 254},
		{5, true, true, 251},
	} {
		s := sessionTo("10.10.1.1")
		s.Multihop, s.TTLSecurity, s.BFD = tt.hops, tt.security, inventory.BFDProfile{Name: "calm", Interval: time.Second, Multiplier: 4}
		want := bfd.Terms{
			Local: s.Local, Remote: s.RouterAddr, Multihop: tt.multihop, MinTTL: tt.least, Timers: bfd.Timers{Interval: time.Second, Multiplier: 4},
		}
		if got := bfdOf(s); got != want {
			t.Errorf("%d hops, TTL security %v: %+v, want %+v", tt.hops, tt.security, got, want)
		}
	}
}
