package results

import (
	"maps"
	"testing"
	"time"
)

func TestMediansAndPercentilesAreOfAllRounds(t *testing.T) {
	rs := New(3)
	for round := range 3 {
		rs.Of("one").Add("s/start", float64(round+1))
		rs.Of("other").Add("s/start", 2)
		rs.Of("one").Most("lost", float64(2-round))
		var all []time.Duration
		for i := range 100 {
			all = append(all, time.Duration(i)*time.Millisecond)
		}
		rs.Of("one").Times("create", all)
	}
	rs.Ratio("one", "other", "s/start")
	rs.Ratio("one", "absent", "s/start")
	have := maps.Collect(rs.Of("one").medians())
	maps.Insert(have, rs.Of("one÷other").medians())
	want := map[string]float64{"s/start": 2, "lost": 2, "ms-p50-create": 50, "ms-p90-create": 90, "ms-p99-create": 99, "of-s/start": 1}
	if !maps.Equal(have, want) {
		t.Errorf("medians %v, want %v", have, want)
	}
}
