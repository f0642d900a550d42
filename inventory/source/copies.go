package source

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
)

// hashed matches the name that kustomize gives a generated ConfigMap: ten
// letters of its own alphabet after the name that was written.
var hashed = regexp.MustCompile(`^(.+)-[2456789bcdfghkmt]{10}$`)

// evenCopies are copies of ConfigMaps of which the younger one is not known, by the name that was written. Each list
// is sorted by name.
type evenCopies map[string][]*v1.ConfigMap

// latestCopies leaves of each set of kustomize's copies, which differ in the
// hash at the end of their names, the one created last: the older ones stand
// there until they are pruned, or for ever. The result is sorted by name; each
// that is left out is a warning, for it may be the one that was meant. Of those that
// were created last in one second, to which creation times are rounded, and say different things, the first by name
// is left, and all are in even.
func latestCopies(all []*v1.ConfigMap) (kept []*v1.ConfigMap, passed inventory.Problems, even evenCopies) {
	slices.SortFunc(all, func(a, b *v1.ConfigMap) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	taken := map[string]*v1.ConfigMap{}
	even = evenCopies{}
	for _, cm := range all {
		parts := hashed.FindStringSubmatch(cm.Name)
		if parts == nil {
			kept = append(kept, cm)
			continue
		}
		switch first := taken[parts[1]]; {
		case first == nil:
			taken[parts[1]] = cm
			kept = append(kept, cm)
		case first.CreationTimestamp.Compare(cm.CreationTimestamp.Time) > 0:
			passed = append(passed, notRead(cm, first.Name+" is younger, and its name differs only in a hash"))
		case saysTheSame(first, cm):
			passed = append(passed, notRead(cm, first.Name+" says the same"))
		default:
			if len(even[parts[1]]) == 0 {
				even[parts[1]] = []*v1.ConfigMap{first}
			}
			even[parts[1]] = append(even[parts[1]], cm)
		}
	}
	slices.SortFunc(kept, func(a, b *v1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	return kept, passed, even
}

// saysTheSame reports whether two copies make the same edit.
func saysTheSame(a, b *v1.ConfigMap) bool {
	allows := func(cm *v1.ConfigMap) [2]string {
		return [2]string{cm.Annotations[edit.AnnotationAllow], cm.Annotations[edit.AnnotationAllowRemovals]}
	}
	return maps.Equal(a.Data, b.Data) && reflect.DeepEqual(a.BinaryData, b.BinaryData) && a.Labels[LabelInventory] == b.Labels[LabelInventory] && allows(a) == allows(b)
}

func notRead(cm *v1.ConfigMap, why string) inventory.Problem {
	return inventory.Problem{
		Source: carrierSource(reference(cm)), Severity: inventory.Warning, Code: inventory.CopyPassedOver, Path: "metadata.name",
		Message: "is not read: " + why, Value: cm.Name, Accepted: "one of the two, or names that do not end alike",
	}
}

// problems returns errors, each of which names copies of which the younger one is not known.
func (even evenCopies) problems() (out inventory.Problems) {
	for _, base := range slices.Sorted(maps.Keys(even)) {
		var names []string
		for _, cm := range even[base] {
			names = append(names, cm.Name)
		}
		first := even[base][0]
		out = append(out, inventory.Problem{
			Source: carrierSource(reference(first)), Severity: inventory.Error, Code: inventory.CopiesOfOneAge, Path: "metadata.name",
			Message: "names of ConfigMaps that were created in the same second and say different things differ only in a hash", Value: strings.Join(names, ", "),
			Accepted: "the one that is meant, alone: the others are to be deleted",
		})
	}
	return out
}

// passedOver returns warnings of the copies that are not among those chosen.
func (even evenCopies) passedOver(chosen []*v1.ConfigMap) (out inventory.Problems) {
	for _, base := range slices.Sorted(maps.Keys(even)) {
		for _, cm := range even[base] {
			if !slices.Contains(chosen, cm) {
				out = append(out, notRead(cm, "a copy of the same second is in force"))
			}
		}
	}
	return out
}

// choices returns all ways to take one of each copies, sixteen at most: an edit with more has other faults.
func choices(kept []*v1.ConfigMap, even evenCopies) [][]*v1.ConfigMap {
	const most = 16
	all := [][]*v1.ConfigMap{kept}
	for _, base := range slices.Sorted(maps.Keys(even)) {
		copies := even[base]
		var next [][]*v1.ConfigMap
		for _, chosen := range all {
			at := slices.Index(chosen, copies[0])
			for _, cm := range copies {
				one := slices.Clone(chosen)
				one[at] = cm
				next = append(next, one)
			}
		}
		all = next[:min(len(next), most)]
	}
	return all
}
