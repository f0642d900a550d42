package document

import "plinth.dev/plinth/inventory"

// Parse reads, merges and validates documents. It returns no inventory if and
// only if the problems have an error. The order of the documents never matters.
// Pod CIDRs are left as they were written by hand; see [inventory.Carve].
func Parse(docs ...Document) (*inventory.Inventory, inventory.Problems) {
	return readAll(docs, &decoder{})
}

// ParseFor is Parse where an inventory of that name is in force. As long as a document has it, those of other inventories are
// refused: it is not the newer one that is taken for the right one. An empty name is none.
func ParseFor(inForce string, docs ...Document) (*inventory.Inventory, inventory.Problems) {
	return readAll(docs, &decoder{inForce: inForce})
}

// Load is Parse, then [inventory.Carve] with nothing in force: what a program takes that
// has no cluster to ask.
func Load(docs ...Document) (*inventory.Inventory, inventory.Problems) {
	inv, problems := Parse(docs...)
	if inv == nil {
		return nil, problems
	}
	carved, more := inventory.Carve(inv, nil)
	return carved, append(problems, more...).Sorted()
}

// ParseAccepted parses the accepted inventory that [FormatAccepted] wrote, in one or several
// parts such as [inventory.Inventory.Common] and [inventory.Inventory.Slice]. It ignores
// unknown fields, so that an older program reads what a newer one wrote, and
// checks nothing across parts: that was done before the inventory was accepted.
func ParseAccepted(docs ...Document) (*inventory.Inventory, inventory.Problems) {
	return readAll(docs, &decoder{lenient: true})
}

// ParseAsOlder is [ParseAccepted] as older versions do it that read the format of what is stored: they insist on what is
// not missed any more. See [ReadsBack].
func ParseAsOlder(docs ...Document) (*inventory.Inventory, inventory.Problems) {
	return readAll(docs, &decoder{lenient: true, strict: true})
}

func readAll(docs []Document, d *decoder) (*inventory.Inventory, inventory.Problems) {
	inv, _, _, problems := readRaw(docs, d)
	return inv, problems
}

// readRaw is readAll, and gives what it read besides.
func readRaw(docs []Document, decoder *decoder) (*inventory.Inventory, *rawInventory, []page, inventory.Problems) {
	pages, problems := decoder.read(docs)
	decoder.pages = pages
	raw := decoder.decode(pages)
	var inv *inventory.Inventory
	if raw != nil {
		inv = decoder.build(raw)
		if decoder.lenient {
			inv.ResolveNeighbours()
		} else {
			decoder.validate(raw, inv)
		}
		inv.Positions = positionsOf(raw, pages)
	}
	problems = append(problems, decoder.place(pages)...).Sorted()
	if raw == nil && len(problems) == 0 {
		problems = append(problems, nothingThere(docs))
	}
	if len(problems.Errors()) > 0 {
		inv = nil
	}
	return inv, raw, pages, problems
}

func nothingThere(docs []Document) inventory.Problem {
	p := inventory.Problem{Severity: inventory.Error, Code: inventory.NoDocument, Message: "there is no inventory here", Accepted: "a document of kind Inventory, or a ConfigMap with the label plinth.dev/inventory that holds one"}
	if len(docs) > 0 {
		p.Source = docs[0].Source
	}
	return p
}
