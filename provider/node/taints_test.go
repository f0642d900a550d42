package node

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	api "k8s.io/cloud-provider/api"
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

// among is the record of these taints.
func among(ours []v1.Taint) func(v1.Taint) bool {
	return func(t v1.Taint) bool { return slices.ContainsFunc(ours, func(o v1.Taint) bool { return o == t }) }
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
			taints, ours := mergeTaints(taintsOf(c.have), among(taintsOf(c.record)), wantedOf(c.want))
			record := writtenOf(ours)
			if got := writtenOf(taints); got != c.wantTaints {
				t.Errorf("taints %q, want %q", got, c.wantTaints)
			}
			if record != c.wantRecord {
				t.Errorf("record %q, want %q", record, c.wantRecord)
			}
		})
	}
}

func TestTaintsOfOthersSurviveEverySequenceOfInventories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := rapid.SliceOfDistinct(rapid.SampledFrom(wantedOf("a:NoSchedule a=x:NoExecute b=y:NoSchedule c:NoSchedule")),
			func(w inventory.Taint) string { return w.Key + w.Effect })
		theirs := rapid.SliceOfDistinct(rapid.SampledFrom(taintsOf("a:NoSchedule d:NoSchedule e=1:NoExecute")), spelled).Draw(t, "theirs")
		taints, record := slices.Clone(theirs), []v1.Taint(nil)
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			want := wanted.Draw(t, "want")
			taints, record = mergeTaints(taints, among(record), want)
			again, sameRecord := mergeTaints(taints, among(record), want)
			if !equalTaints(again, taints) || !equalTaints(sameRecord, record) {
				t.Fatalf("twice is not once: %q %q, then %q %q", writtenOf(taints), writtenOf(record), writtenOf(again), writtenOf(sameRecord))
			}
		}
		taints, record = mergeTaints(taints, among(record), nil)
		if !equalTaints(taints, theirs) || len(record) > 0 {
			t.Fatalf("theirs were %q; what is left is %q, record %q", writtenOf(theirs), writtenOf(taints), writtenOf(record))
		}
	})
}

func TestRecordOfTaintsIsTakenFromWhereAKubeletCannotWrite(t *testing.T) {
	const ours, theirs = "ours=x:NoSchedule", "theirs:NoExecute"
	for name, c := range map[string]struct {
		labels     map[string]string
		annotation string
		formerly   string
		change     func(*v1.Node)
		want       string // of both, what is Plinth's
	}{
		"the labels":                      {labels: recordOf(taintsOf(ours)), want: ours},
		"no word beside the labels":       {labels: recordOf(taintsOf(ours)), annotation: theirs, formerly: theirs, want: ours},
		"nor where there are no taints":   {labels: recordOf(nil), annotation: ours + "," + theirs, formerly: ours + " " + theirs},
		"an older version's":              {annotation: ours, formerly: ours, want: ours},
		"what the inventory never wanted": {annotation: ours + "," + theirs, formerly: ours, want: ours},
		"what no record has":              {formerly: ours},
		"the labels without their number": {labels: map[string]string{recordKey(taintsOf(ours)[0]): "NoSchedule"}, want: ours},
		"a Node that is new": {annotation: ours, formerly: ours, change: func(n *v1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: api.TaintExternalCloudProvider, Effect: v1.TaintEffectNoSchedule})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &v1.Node{}
			n.Labels, n.Annotations, n.Spec.Taints = c.labels, map[string]string{annotationTaints: c.annotation}, taintsOf(ours+" "+theirs)
			if c.change != nil {
				c.change(n)
			}
			formerly := map[string]bool{}
			for s := range strings.FieldsSeq(c.formerly) {
				formerly[s] = true
			}
			recorded := recordedOn(n, formerly)
			var got []v1.Taint
			for _, taint := range taintsOf(ours + " " + theirs) {
				if recorded(taint) {
					got = append(got, taint)
				}
			}
			if writtenOf(got) != c.want {
				t.Errorf("%q are Plinth's, want %q", writtenOf(got), c.want)
			}
		})
	}
}

func TestLabelsOfTheRecordAreLabelsAndOnesThatNodeRestrictionKeeps(t *testing.T) {
	long := v1.Taint{Key: strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63), Value: strings.Repeat("c", 63), Effect: v1.TaintEffectPreferNoSchedule}
	labels := recordOf([]v1.Taint{long, {Key: "b", Effect: v1.TaintEffectNoSchedule}, {Key: "b", Value: "x", Effect: v1.TaintEffectNoSchedule}})
	if len(labels) != 4 {
		t.Errorf("%v: want one for each taint, and one that there is a record", labels)
	}
	for k, v := range labels {
		if wrong := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(wrong) > 0 {
			t.Errorf("%s=%s: %v", k, v, wrong)
		}
		if domain, _, _ := strings.Cut(k, "/"); !strings.HasSuffix(domain, "."+v1.LabelNamespaceNodeRestriction) {
			t.Errorf("%s is a kubelet's to write", k)
		}
	}
}

func TestTheTaintOfMaintenanceSaysSinceWhenItIsThere(t *testing.T) {
	maintenance := v1.Taint{Key: "plinth.dev/maintenance", Effect: v1.TaintEffectNoSchedule}
	earlier, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	other, since := v1.Taint{Key: "other", Effect: v1.TaintEffectNoSchedule}, maintenance
	since.TimeAdded = &earlier
	for what, c := range map[string]struct {
		taints, before []v1.Taint
		want           *metav1.Time
	}{
		"it is new":                      {[]v1.Taint{other, maintenance}, []v1.Taint{other}, &now},
		"it is there, with its time":     {[]v1.Taint{other, since}, []v1.Taint{since, other}, &earlier},
		"an older version has put it on": {[]v1.Taint{other, maintenance}, []v1.Taint{maintenance}, nil},
	} {
		got := stamped(c.taints, c.before, now)
		if got[0].TimeAdded != nil || !got[1].TimeAdded.Equal(c.want) {
			t.Errorf("%s: %v", what, got)
		}
	}
	n := appliedNode()
	patch, ok, err := desired{taints: []inventory.Taint{inventory.TaintMaintenance}}.patch(n)
	if err != nil || !ok || patch.Spec.Taints == nil || len(*patch.Spec.Taints) != 2 || (*patch.Spec.Taints)[1].TimeAdded == nil {
		t.Errorf("%v, %+v", err, patch.Spec.Taints)
	}
}
