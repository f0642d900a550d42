package bgp

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// A process that has no time left must not go on announcing while it has not ended.
func TestASessionIsClosedWhateverBecomesOfTheContext(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 { // what a select takes of two is chance
		s := NewSpeaker(Options{Log: logger(t)})
		c := unanswered("127.0.0.77", "203.0.113.10/32")
		config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{c}}
		if err := s.Set(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		x := s.session(config, c)
		var in *instance
		onOwner(t, x, func() { in = x.server })
		_ = s.Leave(over)
		select {
		case <-x.ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the session's goroutine did not end")
		}
		if _, err := in.counts(t.Context()); x.server != nil || err == nil {
			t.Fatalf("its server runs on: %v, %v", x.server != nil, err)
		}
	}
}
