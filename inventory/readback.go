package inventory

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

// ReadsBack returns an error for the first place of an inventory that would be read as something else
// from these documents, or not at all. They are read as this program does, and as every older one does that
// reads the format that the inventory is stored in; see [Inventory.StoredFormat]. No edit should
// lead to such a place: what is stored like that would be lost.
func (inv *Inventory) ReadsBack(docs ...Document) Problems {
	for _, reader := range []struct {
		who    string
		strict bool
	}{{"this version", false}, {"older versions", true}} {
		again, problems := parse(docs, &decoder{lenient: true, strict: reader.strict})
		if errs := problems.Errors(); len(errs) > 0 {
			why := errs[0].Message
			if errs[0].Path == "" {
				why = errs[0].Source + " " + why
			}
			return Problems{inv.unreadable(cmp.Or(errs[0].Path, "spec"), fmt.Sprintf("could not be read again by %s: %s", reader.who, why))}
		}
		if path := inv.differsAt(again); path != "" {
			return Problems{inv.unreadable(path, "would be read as something else by "+reader.who)}
		}
	}
	return nil
}

// unreadable is the problem of a place that does not read back. It stands where the nearest rack or
// machine around it was written.
func (inv *Inventory) unreadable(path, message string) Problem {
	p := Problem{Code: NotReadBack, Message: "once stored, it " + message, Accepted: "another edit. This is a mistake in Plinth: please report it"}
	at := path
	for inv.positions[at] == (Position{}) && strings.Contains(at, ".") {
		at = at[:strings.LastIndexByte(at, '.')]
	}
	p = inv.problemAt(at, p)
	p.Path = path
	return p
}

// differsAt is the path of the first machine, else rack, in which another inventory is not the same; spec
// where they differ in anything else, and empty where they say the same.
func (inv *Inventory) differsAt(other *Inventory) string {
	if inv.Equal(other) {
		return ""
	}
	text := func(m Machine, of *Inventory) string {
		var p printer
		p.mapping((&formatter{inv: of, accepted: true}).machine(&m), 0)
		return p.String()
	}
	for m := range inv.Machines() {
		if o, ok := other.Machine(m.Name); !ok || o.Rack != m.Rack || text(m, inv) != text(o, other) {
			return machinePath(m.Rack, m.Name)
		}
	}
	for _, r := range inv.Racks {
		if !bytes.Equal(inv.Slice(r.Name).FormatAccepted(), other.Slice(r.Name).FormatAccepted()) {
			return rackPath(r.Name)
		}
	}
	return "spec"
}
