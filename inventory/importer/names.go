package importer

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	inventoryName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	notInName     = regexp.MustCompile(`[^a-z0-9.-]+`)
)

// maxName is the length of the longest name in an inventory.
const maxName = 63

// nameIn is a name as an inventory can have it, and whether it is the one that was given. Names that are taken get a number.
func nameIn(given string, taken map[string]bool) (name string, same bool) {
	name = given
	if !inventoryName.MatchString(name) || len(name) > maxName {
		name = notInName.ReplaceAllString(strings.ToLower(name), "-")
		name = strings.Trim(name[:min(len(name), maxName)], "-.")
		if name == "" {
			name = "unnamed"
		}
	}
	for base, n := name, 2; taken[name]; n++ {
		suffix := fmt.Sprintf("-%d", n)
		name = strings.TrimRight(base[:min(len(base), maxName-len(suffix))], "-.") + suffix
	}
	taken[name] = true
	return name, name == given
}

// name is what an object is called in the inventory, among the names that others of its kind have. A note says where it is not its own.
func (d *draft) name(o *object, taken map[string]bool, who string) string {
	name, same := nameIn(o.name, taken)
	if !same {
		d.note(o, "metadata.name", Renamed, fmt.Sprintf("%s; in the inventory it is %q", who, name))
	}
	return name
}
