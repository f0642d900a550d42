package document

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"plinth.dev/plinth/inventory"
)

// ReadsBack returns an error for the first place of an inventory that would be read as something else
// from these documents, or not at all. They are read as this program does, and as every older one does that
// reads the format that the inventory is stored in; see [StoredFormat]. No edit should
// lead to such a place: what is stored like that would be lost.
func ReadsBack(inv *inventory.Inventory, docs ...Document) inventory.Problems {
	for _, reader := range []struct {
		who   string
		parse func(...Document) (*inventory.Inventory, inventory.Problems)
	}{{"this version", ParseAccepted}, {"older versions", ParseAsOlder}} {
		again, problems := reader.parse(docs...)
		if errs := problems.Errors(); len(errs) > 0 {
			why := errs[0].Message
			if errs[0].Path == "" {
				why = errs[0].Source + " " + why
			}
			return inventory.Problems{unreadable(inv, cmp.Or(errs[0].Path, "spec"), fmt.Sprintf("could not be read again by %s: %s", reader.who, why))}
		}
		if path := differsAt(inv, again); path != "" {
			return inventory.Problems{unreadable(inv, path, "would be read as something else by "+reader.who)}
		}
	}
	return nil
}

// unreadable is the problem of a place that does not read back. It stands where the nearest rack or
// machine around it was written.
func unreadable(inv *inventory.Inventory, path, message string) inventory.Problem {
	problem := inventory.Problem{Code: inventory.NotReadBack, Message: "once stored, it " + message, Accepted: "another edit. This is a mistake in Plinth: please report it"}
	at := path
	for inv.Positions[at] == (inventory.Position{}) && strings.Contains(at, ".") {
		at = at[:strings.LastIndexByte(at, '.')]
	}
	problem = inv.ProblemAt(at, problem)
	problem.Path = path
	return problem
}

// differsAt is the path of the first machine, else rack, in which another inventory is not the same; spec
// where they differ in anything else, and empty where they say the same.
func differsAt(inv *inventory.Inventory, other *inventory.Inventory) string {
	if Equal(inv, other) {
		return ""
	}
	text := func(m inventory.Machine, of *inventory.Inventory) string {
		var p printer
		p.mapping((&formatter{inv: of, accepted: true}).machine(&m), 0)
		return p.String()
	}
	for m := range inv.Machines() {
		if o, ok := other.Machine(m.Name); !ok || o.Rack != m.Rack || text(m, inv) != text(o, other) {
			return inventory.MachinePath(m.Rack, m.Name)
		}
	}
	for _, r := range inv.Racks {
		if !bytes.Equal(FormatAccepted(inv.Slice(r.Name)), FormatAccepted(other.Slice(r.Name))) {
			return inventory.RackPath(r.Name)
		}
	}
	return "spec"
}
