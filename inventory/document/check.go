package document

import "plinth.dev/plinth/inventory"

// Check returns what is wrong with documents whatever the other documents of their inventory say:
// syntax, keys and values, and what two things in these documents have both. Where it has an
// error, [Parse] has one for every set of documents that has these among them. What refers to
// another document, and what only the whole can be judged by, is left to Parse.
func Check(docs ...Document) inventory.Problems {
	d := &decoder{part: true}
	pages, problems := d.read(docs)
	d.pages = pages
	raw := d.decode(pages)
	if raw != nil {
		v := &validation{decoder: d, raw: &raw.Spec, inv: d.build(raw)}
		v.partly()
	}
	if d.steps <= 0 {
		return problems // how many aliases are too many depends on how large the others are
	}
	return append(problems, d.place(pages)...).Sorted()
}
