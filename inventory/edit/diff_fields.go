package edit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
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

// FieldChange is one value that changes; empty where there is none.
type FieldChange struct{ Field, Old, New string }

func joined(all []inventory.Range) string {
	return strings.Join(inventory.Strings(all), ", ")
}

// String shows the old value and the new one.
func (f FieldChange) String() string {
	switch {
	case f.Old == "":
		return fmt.Sprintf("%s is set to %s", f.Field, f.New)
	case f.New == "":
		return fmt.Sprintf("%s is no longer %s", f.Field, f.Old)
	}
	return fmt.Sprintf("%s: %s -> %s", f.Field, f.Old, f.New)
}

// fieldList returns the changes of fields on lines of their own, indented.
func fieldList(fields []FieldChange) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}
