package provider

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// annotationTaints remembers on a Node which of its taints Plinth set. The API
// knows an owner only of the whole list.
const annotationTaints = "plinth.dev/taints"

// mergeTaints makes wanted taints true in a Node's list and takes away those of
// the record that are no longer wanted. It returns the list and the new record.
// Taints that others set stay where they are, and one that was there before
// Plinth wanted it is not put on record: it is not ours to remove.
func mergeTaints(have []v1.Taint, record string, want []inventory.Taint) ([]v1.Taint, string) {
	recorded := readTaints(record)
	var out []v1.Taint
	for _, t := range have {
		if !recorded[spelled(t)] || slices.ContainsFunc(want, func(w inventory.Taint) bool { return sameTaint(t, w) }) {
			out = append(out, t)
		}
	}
	var ours []string
	for _, w := range want {
		wanted := v1.Taint{Key: w.Key, Value: w.Value, Effect: v1.TaintEffect(w.Effect)}
		at := slices.IndexFunc(out, func(t v1.Taint) bool { return sameTaint(t, w) })
		switch {
		case at < 0:
			out = append(out, wanted)
		case out[at].Value == w.Value && !recorded[spelled(wanted)]:
			continue // somebody else's, and just as we want it
		case out[at].Value != w.Value:
			out[at] = wanted
		}
		ours = append(ours, spelled(wanted))
	}
	slices.Sort(ours)
	return out, strings.Join(ours, ",")
}

// sameTaint reports whether two taints are one to Kubernetes, which tells them
// apart by key and effect.
func sameTaint(t v1.Taint, w inventory.Taint) bool {
	return t.Key == w.Key && string(t.Effect) == w.Effect
}

// spelled writes a taint as kubectl does: key=value:effect.
func spelled(t v1.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

func readTaints(record string) map[string]bool {
	out := map[string]bool{}
	for s := range strings.SplitSeq(record, ",") {
		if s != "" {
			out[s] = true
		}
	}
	return out
}

// equalTaints compares what can be set; a NoExecute taint also has the time at
// which it was set.
func equalTaints(a, b []v1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y v1.Taint) bool {
		return cmp.Compare(spelled(x), spelled(y)) == 0
	})
}
