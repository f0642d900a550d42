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
	for range 10 { // a select chooses at random
		speaker := NewSpeaker(Options{Log: logger(t)})
		c := unanswered("127.0.0.77", "203.0.113.10/32")
		config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{c}}
		if err := speaker.Set(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		session := speaker.session(config, c)
		var in *instance
		onOwner(t, session, func() { in = session.server })
		_ = speaker.Leave(over)
		select {
		case <-session.ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the session's goroutine did not end")
		}
		if _, err := in.counts(t.Context()); session.server != nil || err == nil {
			t.Fatalf("its server runs on: %v, %v", session.server != nil, err)
		}
	}
}
