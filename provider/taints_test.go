package provider

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// taintsOf reads taints as kubectl writes them, separated by spaces.
func taintsOf(written string) []v1.Taint {
	var out []v1.Taint
	for s := range strings.FieldsSeq(written) {
		rest, effect, _ := strings.Cut(s, ":")
		key, value, _ := strings.Cut(rest, "=")
		out = append(out, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
	}
	return out
}

func wantedOf(written string) []inventory.Taint {
	var out []inventory.Taint
	for _, t := range taintsOf(written) {
		out = append(out, inventory.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

func writtenOf(taints []v1.Taint) string {
	var out []string
	for _, t := range taints {
		out = append(out, spelled(t))
	}
	return strings.Join(out, " ")
}

func TestMergeOfTaints(t *testing.T) {
	cases := map[string]struct {
		have, record, want     string
		wantTaints, wantRecord string
	}{
		"a new one goes to the end":                 {"a:NoSchedule", "", "b=x:NoSchedule", "a:NoSchedule b=x:NoSchedule", "b=x:NoSchedule"},
		"nothing to do":                             {"b:NoSchedule a:NoExecute", "b:NoSchedule", "b:NoSchedule", "b:NoSchedule a:NoExecute", "b:NoSchedule"},
		"ours goes when it is no longer wanted":     {"a:NoSchedule b:NoSchedule", "b:NoSchedule", "", "a:NoSchedule", ""},
		"theirs stays when it is no longer wanted":  {"b:NoSchedule", "", "", "b:NoSchedule", ""},
		"one that was there is not put on record":   {"b:NoSchedule", "", "b:NoSchedule", "b:NoSchedule", ""},
		"ours with a value that somebody changed":   {"b=z:NoSchedule", "b=x:NoSchedule", "", "b=z:NoSchedule", ""},
		"a value is put right, and is ours then":    {"b=z:NoSchedule", "", "b=x:NoSchedule", "b=x:NoSchedule", "b=x:NoSchedule"},
		"a value of ours changes in its place":      {"b=x:NoSchedule a:NoExecute", "b=x:NoSchedule", "b=y:NoSchedule", "b=y:NoSchedule a:NoExecute", "b=y:NoSchedule"},
		"another effect is another taint":           {"b:NoExecute", "", "b:NoSchedule", "b:NoExecute b:NoSchedule", "b:NoSchedule"},
		"somebody took ours away: it comes back":    {"", "b:NoSchedule", "b:NoSchedule", "b:NoSchedule", "b:NoSchedule"},
		"somebody took ours away, no longer wanted": {"a:NoSchedule", "b:NoSchedule", "", "a:NoSchedule", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			taints, record := mergeTaints(taintsOf(c.have), c.record, wantedOf(c.want))
			if got := writtenOf(taints); got != c.wantTaints {
				t.Errorf("taints %q, want %q", got, c.wantTaints)
			}
			if record != c.wantRecord {
				t.Errorf("record %q, want %q", record, c.wantRecord)
			}
		})
	}
}

func TestTaintsOfOthersSurviveEverySequenceOfWishes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wish := rapid.SliceOfDistinct(rapid.SampledFrom(wantedOf("a:NoSchedule a=x:NoExecute b=y:NoSchedule c:NoSchedule")),
			func(w inventory.Taint) string { return w.Key + w.Effect })
		theirs := rapid.SliceOfDistinct(rapid.SampledFrom(taintsOf("a:NoSchedule d:NoSchedule e=1:NoExecute")), spelled).Draw(t, "theirs")
		taints, record := slices.Clone(theirs), ""
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			want := wish.Draw(t, "want")
			taints, record = mergeTaints(taints, record, want)
			again, sameRecord := mergeTaints(taints, record, want)
			if !equalTaints(again, taints) || sameRecord != record {
				t.Fatalf("twice is not once: %q %q, then %q %q", writtenOf(taints), record, writtenOf(again), sameRecord)
			}
		}
		taints, record = mergeTaints(taints, record, nil)
		if !equalTaints(taints, theirs) || record != "" {
			t.Fatalf("theirs were %q; what is left is %q, record %q", writtenOf(theirs), writtenOf(taints), record)
		}
	})
}
