package edit

import (
	"cmp"
	"slices"
)

// diffFields compares the fields of two things, by their paths.
func diffFields(was, is map[string]string) []FieldChange {
	var out []FieldChange
	for path, old := range was {
		if now := is[path]; now != old {
			out = append(out, FieldChange{path, old, now})
		}
	}
	for path, now := range is {
		if _, ok := was[path]; !ok {
			out = append(out, FieldChange{path, "", now})
		}
	}
	slices.SortFunc(out, func(a, b FieldChange) int { return cmp.Compare(a.Field, b.Field) })
	return out
}
