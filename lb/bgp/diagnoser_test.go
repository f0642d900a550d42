package bgp

import "testing"

func TestADiagnosisDoesNotRefuteWhatExplainsIt(t *testing.T) {
	shutdown, limit, expired := diagnosis{RouterShutdown, "maintenance"}, diagnosis{PrefixLimit, "too many"}, diagnosis{HoldTimerExpired, "silent"}
	refused, closes, mismatch := diagnosis{Refused, "nothing listens"}, diagnosis{ClosedByRouter, "closes"}, diagnosis{TTLMismatch, "no TTL security"}
	for _, tt := range []struct {
		name   string
		loss   diagnosis
		before Cause
		found  diagnosis
		want   diagnosis // its zero value: the diagnosis before stays
	}{
		{"nothing is found", expired, HoldTimerExpired, diagnosis{}, diagnosis{}},
		{"another cause is found", expired, HoldTimerExpired, refused, refused},
		{"a session that never was up", diagnosis{}, Connecting, mismatch, mismatch},
		{"the router closes probes after a mismatch of TTLs", diagnosis{}, TTLMismatch, closes, diagnosis{}},
		{"it refuses them after one", diagnosis{}, TTLMismatch, refused, refused},
		{"it was shut down, and refuses", shutdown, RouterShutdown, refused, diagnosis{RouterShutdown, "maintenance; since then nothing listens"}},
		{"it was shut down, and closes", shutdown, RouterShutdown, closes, diagnosis{RouterShutdown, "maintenance; since then closes"}},
		{"it had too many prefixes, and closes", limit, PrefixLimit, closes, diagnosis{PrefixLimit, "too many; since then closes"}},
		{"it was shut down, and has another TTL now", shutdown, RouterShutdown, mismatch, mismatch},
	} {
		d := diagnoser{loss: tt.loss}
		got, ok := d.combine(tt.before, tt.found)
		if got != tt.want || ok != (tt.want != diagnosis{}) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, ok, tt.want)
		}
	}
}
