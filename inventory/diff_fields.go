package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// diffFields compares two mappings field by field.
func diffFields(prefix string, before, after mapOf) []FieldChange {
	was, is := map[string]string{}, map[string]string{}
	before.flatten(prefix, was)
	after.flatten(prefix, is)
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

// undiffed are keys that are told in another way.
var undiffed = map[string]bool{"machines": true, "held": true, "carved": true}

// flatten notes the value of every field by its path.
func (m mapOf) flatten(prefix string, into map[string]string) {
	for _, f := range m {
		path := strings.TrimPrefix(prefix+"."+f.key, ".")
		switch v := f.value.(type) {
		case mapOf:
			v.flatten(path, into)
		case []mapOf:
			if !undiffed[f.key] {
				flattenList(v, path, into)
			}
		case []string:
			into[path] = "[" + strings.Join(v, ", ") + "]"
		default:
			if !undiffed[f.key] {
				into[path] = fmt.Sprint(v)
			}
		}
	}
}

// flattenList names things by their name, or else by their place.
func flattenList(items []mapOf, path string, into map[string]string) {
	for i, item := range items {
		key := fmt.Sprint(i)
		if len(item) > 0 && item[0].key == "name" {
			key = fmt.Sprint(item[0].value)
		}
		if len(item) == 0 {
			into[path+"["+key+"]"] = "{}"
		}
		item.flatten(path+"["+key+"]", into)
	}
}
