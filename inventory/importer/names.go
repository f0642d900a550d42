package importer

import (
	"cmp"
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

// named is a kind of things whose names differ, whatever source they come from.
type named string

const (
	poolName      named = "pool"
	routerName    named = "router"
	profileName   named = "BFD profile"
	communityName named = "community"
	rackName      named = "rack"
)

// names are the names that are given to things of the inventory.
type names struct {
	given map[givenName]bool
}

// givenName is a name of a kind of things.
type givenName struct {
	kind named
	name string
}

// cleanName is a name as an inventory can have it, and whether it is the one that was given.
func cleanName(given string) (name string, same bool) {
	name = given
	if !inventoryName.MatchString(name) || len(name) > maxName {
		name = notInName.ReplaceAllString(strings.ToLower(name), "-")
		name = cmp.Or(strings.Trim(name[:min(len(name), maxName)], "-."), "unnamed")
	}
	return name, name == given
}

// newName is cleanName for a new thing of a kind: a name that another one has gets a number.
func (n *names) newName(kind named, given string) (name string, same bool) {
	name, _ = cleanName(given)
	for base, number := name, 2; n.given[givenName{kind, name}]; number++ {
		suffix := fmt.Sprintf("-%d", number)
		name = strings.TrimRight(base[:min(len(base), maxName-len(suffix))], "-.") + suffix
	}
	n.given[givenName{kind, name}] = true
	return name, name == given
}

// name returns the name of an object in the inventory. A note records where it is not the object's own name.
func (d *draft) name(o *object, kind named, who string) string {
	name, same := d.newName(kind, o.name)
	if !same {
		d.note(o, "metadata.name", Renamed, fmt.Sprintf("%s; in the inventory it is %q", who, name))
	}
	return name
}

// rackFor is the name of the rack that a key stands for, such as the value of a label: the same one for the same key, whatever source has it. A rack
// that is made gets the zone; sameZone tells whether the one that there is has it. Where the name is not the given one it is told.
func (d *draft) rackFor(key, given, zone string, renamed func(message string)) (name string, sameZone bool) {
	key, given = cmp.Or(key, defaultRack), cmp.Or(given, defaultRack)
	if name, known := d.racks[key]; known {
		return name, d.rack(name).Zone == zone
	}
	name, same := d.newName(rackName, given)
	if !same {
		renamed(fmt.Sprintf("%q is rack %q in the inventory", given, name))
	}
	d.racks[key] = name
	d.rack(name).Zone = zone
	return name, true
}
