package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// Labels of a Node remember which of its taints Plinth set: the API knows an owner only of
// the whole list, and takes a field manager's word for its name. Admission plugin
// NodeRestriction keeps a kubelet from these labels as it keeps it from taints, so that
// whoever may write the record may take the taints away without it.
const (
	labelTaints = "plinth.node-restriction.kubernetes.io/taints" // how many they are; where it is, there is a record
	labelTaint  = "taint.plinth.node-restriction.kubernetes.io/" // and what recordKey says of one; the value is its effect
)

// annotationTaints was the record of versions that had no such labels. A kubelet may write
// it, so it counts only on a Node that has no record yet, and only for taints that the
// accepted inventory wanted since this process started.
const annotationTaints = "plinth.dev/taints"

// recordKey is the label that says that a taint is Plinth's.
func recordKey(t v1.Taint) string {
	sum := sha256.Sum256([]byte(spelled(t)))
	return labelTaint + hex.EncodeToString(sum[:8])
}

// recordOf returns the labels that say which taints are Plinth's.
func recordOf(ours []v1.Taint) map[string]string {
	labels := map[string]string{labelTaints: strconv.Itoa(len(ours))}
	for _, t := range ours {
		labels[recordKey(t)] = string(t.Effect)
	}
	return labels
}

// recordedOn returns a function that reports whether a taint of a Node is Plinth's. formerly has
// the taints that the inventory desired there before. The label of a taint counts without the number
// of them, which a person may have removed.
func recordedOn(node *v1.Node, formerly map[string]bool) func(v1.Taint) bool {
	_, there := node.Labels[labelTaints]
	older := readTaints(node.Annotations[annotationTaints])
	return func(t v1.Taint) bool {
		if _, ours := node.Labels[recordKey(t)]; ours || there {
			return ours
		}
		return older[spelled(t)] && formerly[spelled(t)] && !initialising(node)
	}
}

// mergeTaints makes wanted taints true in a Node's list and takes away those on
// record that are no longer wanted. It returns the list and which of it are
// Plinth's. Taints that others set stay where they are, and one that was there before
// Plinth wanted it is not put on record: it is not ours to remove.
func mergeTaints(have []v1.Taint, recorded func(v1.Taint) bool, want []inventory.Taint) (out, ours []v1.Taint) {
	for _, t := range have {
		if !recorded(t) || slices.ContainsFunc(want, func(w inventory.Taint) bool { return sameTaint(t, w) }) {
			out = append(out, t)
		}
	}
	for _, taint := range want {
		wanted := taintOf(taint)
		at := slices.IndexFunc(out, func(t v1.Taint) bool { return sameTaint(t, taint) })
		switch {
		case at < 0:
			out = append(out, wanted)
		case out[at].Value == taint.Value && !recorded(wanted):
			continue // somebody else's, and just as we want it
		case out[at].Value != taint.Value:
			out[at] = wanted
		}
		ours = append(ours, wanted)
	}
	return out, ours
}

func taintOf(t inventory.Taint) v1.Taint {
	return v1.Taint{Key: t.Key, Value: t.Value, Effect: v1.TaintEffect(t.Effect)}
}

// stamped notes on the taint of maintenance since when it is there, which plinth status tells. One
// that a Node has already keeps its time, or has none.
func stamped(taints, before []v1.Taint, now metav1.Time) []v1.Taint {
	out := slices.Clone(taints)
	for i, t := range out {
		if sameTaint(t, inventory.TaintMaintenance) && !slices.ContainsFunc(before, func(b v1.Taint) bool { return sameTaint(b, inventory.TaintMaintenance) }) {
			out[i].TimeAdded = &now
		}
	}
	return out
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

// equalTaints compares the fields that can be set; a NoExecute taint also has the time at
// which it was set.
func equalTaints(a, b []v1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y v1.Taint) bool {
		return cmp.Compare(spelled(x), spelled(y)) == 0
	})
}

// wantedTaints are the taints that the inventories desired on each machine since this process
// started, by provider ID: the first inventory is the one that its predecessor left in force.
type wantedTaints struct {
	mu  sync.Mutex
	all map[string]map[string]bool
}

// observe adds the taints that an inventory desires.
func (w *wantedTaints) observe(inv *inventory.Inventory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rack := range inv.Racks {
		for _, m := range rack.Machines {
			for _, t := range m.NodeTaints() {
				if w.all[m.ProviderID()] == nil {
					w.all[m.ProviderID()] = map[string]bool{}
				}
				w.all[m.ProviderID()][spelled(taintOf(t))] = true
			}
		}
	}
}

// of returns the taints that were desired on a machine.
func (w *wantedTaints) of(m inventory.Machine) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.all[m.ProviderID()])
}
