package fleet

import (
	"testing"

	"plinth.dev/plinth/test/bench/results"
)

// sample is what a contender cost in one round, beside the two turns that nobody had before and after it, and what one collection of
// the server's garbage cost.
type sample struct{ contender, before, after, collection float64 }

// sampleOf compares costs of one round.
func sampleOf(contender, before, after cost) sample {
	return sample{contender.server, before.server, after.server, max(contender.collection, before.collection, after.collection)}
}

// more is what the contender cost beyond nobody, and what chance may have of it: the difference of nobody's own turns, and a collection. What is
// not larger than that says nothing of the contender.
func (m sample) more() (more, noise float64) {
	return m.contender - (m.before+m.after)/2, max(m.before, m.after) - min(m.before, m.after) + m.collection
}

// addMore notes what one of n watchers cost, by a scale, and reports whether that can be told. If in any round it is not
// beyond the noise, its bound alone is noted, as "below-" and the unit.
func addMore(r *results.Result, unit string, scale float64, n int, all []sample) (clear bool) {
	clear = true
	for _, m := range all {
		more, noise := m.more()
		clear = clear && more > noise
	}
	for _, m := range all {
		more, noise := m.more()
		if clear {
			r.Add(unit, scale*more/float64(n))
		} else {
			r.Most("below-"+unit, scale*max(more+noise, noise)/float64(n))
		}
	}
	return clear
}

func TestWhatIsWithinTheNoiseIsABoundAndNoFigure(t *testing.T) {
	for name, tt := range map[string]struct {
		all   []sample
		clear bool
	}{
		"far beyond":                    {[]sample{{20, 5, 6, 1}, {21, 6, 6, 1}}, true},
		"within, in one of two":         {[]sample{{20, 5, 6, 1}, {7, 5, 8, 0}}, false},
		"no more than a collection":     {[]sample{{8, 5, 5, 4}}, false},
		"less than nobody":              {[]sample{{4, 5, 5.5, 0}}, false},
		"nothing, where nobody differs": {[]sample{{5, 5, 5, 0}}, false},
	} {
		if got := addMore(results.New(1).Of("agent"), "ms/rollout", 1e3, 10, tt.all); got != tt.clear {
			t.Errorf("%s: it can be told: %v", name, got)
		}
	}
}
