package inventory

// Parse reads, merges and validates documents. It returns no inventory if and
// only if the problems have an error. The order of the documents never matters.
// Pod CIDRs are left as they were written by hand; see [Carve].
func Parse(docs ...Document) (*Inventory, Problems) {
	return parse(docs, &decoder{})
}

// ParseFor is Parse where an inventory of that name is in force. As long as a document has it, those of other inventories are
// refused: it is not the newer one that is taken for the right one. An empty name is none.
func ParseFor(inForce string, docs ...Document) (*Inventory, Problems) {
	return parse(docs, &decoder{inForce: inForce})
}

// Load is Parse, then [Carve] with nothing in force: what a program takes that
// has no cluster to ask.
func Load(docs ...Document) (*Inventory, Problems) {
	inv, problems := Parse(docs...)
	if inv == nil {
		return nil, problems
	}
	carved, more := Carve(inv, nil)
	return carved, append(problems, more...).sorted()
}

// ParseAccepted reads what [Inventory.FormatAccepted] wrote, in one or several
// parts such as [Inventory.Common] and [Inventory.Slice]. What it does not know
// is passed over, so that an older program reads what a newer one wrote, and
// nothing is checked across parts: that was done before it was accepted.
func ParseAccepted(docs ...Document) (*Inventory, Problems) {
	return parse(docs, &decoder{lenient: true})
}

func parse(docs []Document, d *decoder) (*Inventory, Problems) {
	inv, _, _, problems := parseRaw(docs, d)
	return inv, problems
}

// parseRaw is parse, and gives what it read besides.
func parseRaw(docs []Document, d *decoder) (*Inventory, *rawInventory, []page, Problems) {
	pages, problems := d.read(docs)
	d.pages = pages
	raw := d.decode(pages)
	var inv *Inventory
	if raw != nil {
		inv = d.build(raw)
		if d.lenient {
			inv.meetNeighbours()
		} else {
			d.validate(raw, inv)
		}
		inv.positions = positionsOf(raw, pages)
	}
	problems = append(problems, d.place(pages)...).sorted()
	if raw == nil && len(problems) == 0 {
		problems = append(problems, nothingThere(docs))
	}
	if len(problems.Errors()) > 0 {
		inv = nil
	}
	return inv, raw, pages, problems
}

func nothingThere(docs []Document) Problem {
	p := Problem{Severity: Error, Code: NoDocument, Message: "there is no inventory here", Accepted: "a document of kind Inventory, or a ConfigMap with the label plinth.dev/inventory that holds one"}
	if len(docs) > 0 {
		p.Source = docs[0].Source
	}
	return p
}
