package document

import (
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// FlatSettings are the values of everything that an inventory says besides its machines and pools, as they are printed, by
// the path of the field.
func FlatSettings(inv *inventory.Inventory) map[string]string {
	f := formatter{inv: inv, accepted: true}
	settings := slices.DeleteFunc(f.spec(), func(p pair) bool { return p.key == "pools" })
	return flattened("spec", settings)
}

// FlatMachine are the values of a machine, as they are printed, by the path of the field.
func FlatMachine(m inventory.Machine) map[string]string {
	return flattened("", (&formatter{accepted: true}).machine(&m))
}

// FlatPool are the values of a pool, as they are printed, by the path of the field.
func FlatPool(p inventory.Pool) map[string]string { return flattened("", poolMap(p)) }

func flattened(prefix string, m mapOf) map[string]string {
	out := map[string]string{}
	m.flatten(prefix, out)
	return out
}

// undiffed are keys that are told in another way.
var undiffed = map[string]bool{"machines": true, "held": true, "carved": true}

// flatten notes the value of every field by its path.
func (m mapOf) flatten(prefix string, into map[string]string) {
	for _, pair := range m {
		path := strings.TrimPrefix(prefix+"."+pair.key, ".")
		switch v := pair.value.(type) {
		case mapOf:
			v.flatten(path, into)
		case []mapOf:
			if !undiffed[pair.key] {
				flattenList(v, path, into)
			}
		case []string:
			into[path] = "[" + strings.Join(v, ", ") + "]"
		default:
			if !undiffed[pair.key] {
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
