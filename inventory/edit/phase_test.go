package edit

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAnEditIsInOneOfThePhasesThatMayFollow is the law of every sequence of verdicts and writes.
func TestAnEditIsInOneOfThePhasesThatMayFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLife()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			was := l
			var to Phase
			var err error
			switch to = rapid.SampledFrom(slices.Sorted(maps.Keys(transitions))).Draw(t, "to"); to {
			case Accepted:
				err = l.Accept()
			case Superseded:
				err = l.Supersede()
			case Read:
				err = l.Reconsider()
			default:
				err = l.Decide(Verdict{Phase: to, Digest: "0123"})
			}
			switch may := slices.Contains(transitions[was.Phase], to); {
			case may != (err == nil), may && l.Phase != to, !may && l.Phase != was.Phase:
				t.Fatalf("from %s to %s: it is %s, %v", was.Phase, to, l.Phase, err)
			}
		}
	})
}

func TestTheTableOfPhasesIsWhole(t *testing.T) {
	for from, all := range transitions {
		for _, to := range all {
			if _, known := transitions[to]; !known || to == Superseded && len(transitions[to]) > 0 {
				t.Errorf("%s leads to %s", from, to)
			}
		}
		if !slices.Contains(all, Read) && from != Superseded {
			t.Errorf("one that is %s cannot be decided on again", from)
		}
	}
	if got := slices.Collect(func(yield func(Phase) bool) {
		for s, all := range transitions {
			if slices.Contains(all, Accepted) && !yield(s) {
				return
			}
		}
	}); !slices.Equal(got, []Phase{Allowed}) {
		t.Errorf("%v may be accepted: only what is allowed may", got)
	}
}
