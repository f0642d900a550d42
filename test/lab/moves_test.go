package lab

import (
	"slices"
	"testing"
	"time"
)

// TestALossIsExcusedByWhatRoutersDidAtThatTime and by nothing else.
func TestALossIsExcusedByWhatRoutersDidAtThatTime(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	moves := []Change{ // the pods of one rack end when those of the other come
		{Host: "tor-r1", Text: "203.0.113.1 nhid 19 via 10.0.0.1 dev to-tor-r2 proto bgp metric 20"},
		{Host: "tor-r2", Text: "203.0.113.1 via 10.10.2.12 dev rack1 proto bird metric 32"},
		{At: at(1000), Host: "tor-r2", Text: "203.0.113.1 via 10.0.0.0 dev to-tor-r1 proto bird metric 32"},
		{At: at(1014), Host: "tor-r1", Text: "203.0.113.1 nhid 28 via 10.10.1.11 dev rack0 proto bgp metric 20"},
		{At: at(3000), Host: "tor-r1", Text: "Deleted 203.0.113.1 nhid 28 via 10.10.1.11 dev rack0 proto bgp metric 20"},
		{At: at(3000), Host: "tor-r1", Text: "203.0.113.1 nhid 19 via 10.10.1.12 dev rack0 proto bgp metric 20"},
	}
	r := Report{
		Losses:   []time.Time{at(500), at(900), at(1007), at(1009), at(1100), at(2990), at(3010), at(5000)},
		SentBack: []time.Time{at(500), at(900), at(1007), at(5000)},
		Cuts: []Cut{
			{Sent: at(2990), Begun: at(2991), Reset: at(3002)},
			{Sent: at(3010), Begun: at(3011), Reset: at(3012)}, // after the move: nobody moved it
			{Sent: at(5000), Begun: at(5001), Reset: at(5002)},
		},
	}
	if got, want := r.NotCut(moves), []time.Time{at(500), at(900), at(1007), at(1009), at(1100), at(3010), at(5000)}; !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("not cut: %v, want %v", got, want)
	}
	if got, want := r.NotMoved(moves), []time.Time{at(500), at(1009), at(1100), at(3010), at(5000)}; !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("not moved: %v, want %v", got, want)
	}
	if got := r.NotMoved(nil); len(got) != len(r.Losses) {
		t.Errorf("without a move %d of %d losses are excused", len(r.Losses)-len(got), len(r.Losses))
	}
}
