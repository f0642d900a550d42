package document

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// read turns documents into pages, in an order that does not depend on theirs.
func (d *decoder) read(docs []Document) ([]page, inventory.Problems) {
	docs = slices.Clone(docs)
	slices.SortStableFunc(docs, func(a, b Document) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), bytes.Compare(a.Data, b.Data))
	})
	var pages []page
	var bad inventory.Problems
	for _, doc := range docs {
		ps, err := readPages(doc)
		if err != nil {
			bad = append(bad, syntaxProblem(doc, err))
		}
		pages = append(pages, ps...)
	}
	return pages, bad
}

// syntaxProblem returns the problem of a document that the YAML library refused.
func syntaxProblem(doc Document, err error) inventory.Problem {
	problem := inventory.Problem{Source: doc.Source, Severity: inventory.Error, Code: inventory.BadYAML, Message: err.Error(), Accepted: "YAML or JSON"}
	if le := (*yaml.LoadError)(nil); errors.As(err, &le) {
		problem.Message, problem.Line, problem.Column = "is not YAML: "+le.Message, le.Mark.Line, le.Mark.Column
		if strings.HasPrefix(le.Message, "unknown anchor") { // names it
			problem.Message = "is not YAML: an alias of an anchor that is not here"
		}
		if le.ContextMsg != "" {
			problem.Message += ", " + le.ContextMsg
		}
	}
	problem.Suggestion = shownMeant(doc, problem)
	return problem
}

// shownMeant returns a suggestion for the line of a syntax problem, where the document is YAML with it and all of it has a type.
func shownMeant(doc Document, problem inventory.Problem) string {
	meant := syntaxMeant(doc.Data, problem)
	lines := strings.SplitAfter(string(doc.Data), "\n")
	if meant == "" || problem.Line > len(lines) {
		return ""
	}
	was := lines[problem.Line-1]
	is := was[:len(was)-len(strings.TrimLeft(was, " \t"))] + strings.TrimLeft(meant, " \t")
	if strings.HasPrefix(meant, " ") {
		is = meant
	}
	lines[problem.Line-1] = is + "\n"
	mended := Document{Data: []byte(strings.Join(lines, ""))}
	if _, err := readPages(mended); err != nil {
		return ""
	}
	if shown, _, _ := mended.Lines().At(problem.Line, 1); shown != is {
		return ""
	}
	return meant
}

// syntaxMeant knows the mistakes that people make most.
func syntaxMeant(data []byte, problem inventory.Problem) string {
	line := lineOf(data, problem.Line)
	key, value, isPair := strings.Cut(strings.TrimSpace(line), ": ")
	switch {
	case strings.Contains(problem.Message, "cannot start any token") && isPair && strings.ContainsAny(value[:min(1, len(value))], "@`%"):
		return key + `: "` + value + `"`
	case strings.Contains(problem.Message, "cannot start any token") && strings.HasPrefix(line, "\t"):
		return strings.Replace(line, "\t", "  ", 1)
	case strings.Contains(problem.Message, "did not find expected ',' or ']'") && problem.Column <= len(line):
		return line[:problem.Column-1] + "]" + line[problem.Column-1:]
	case strings.Contains(problem.Message, "mapping values are not allowed") && isPair && strings.Contains(value, ":"):
		return key + `: "` + value + `"`
	}
	return ""
}

// lineOf returns a line of the data, counted from 1.
func lineOf(data []byte, line int) string {
	for l := range bytes.Lines(data) {
		if line--; line == 0 {
			return strings.TrimRight(string(l), "\r\n")
		}
	}
	return ""
}

// decode reads every page into raw values, and merges them into one.
func (d *decoder) decode(pages []page) *rawInventory {
	for _, p := range pages {
		d.steps += 10 * countNodes(p.root)
	}
	d.steps += 1000
	var all []*rawInventory
	for _, p := range pages {
		var r rawInventory
		r.node = p.root
		if object(d, p.root, &r) && d.goodHeader(&r) {
			all = append(all, &r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	first := max(0, slices.IndexFunc(all, func(r *rawInventory) bool { return r.Metadata.Name.v == d.inForce }))
	whole := all[first]
	for i, r := range all {
		if i != first && d.sameName(whole, r) {
			d.merge(&whole.Spec, &r.Spec)
		}
	}
	return whole
}

// goodHeader checks apiVersion, kind and name.
func (d *decoder) goodHeader(r *rawInventory) bool {
	ok := d.header(r.node, "apiVersion", r.APIVersion, inventory.APIVersion, inventory.BadAPIVersion)
	ok = d.header(r.node, "kind", r.Kind, inventory.Kind, inventory.BadKind) && ok
	if !r.Metadata.Name.given() {
		at := cmp.Or(r.Metadata.node, r.node)
		if !d.has(at, "name") {
			d.refuse(at, refusal{code: inventory.Missing, message: "metadata.name is missing", accepted: "metadata: {name: …}", suggestion: "name: dc1", example: true})
		}
		return false
	}
	return ok
}

// header checks that a key has the one value that it can have.
func (d *decoder) header(root *yaml.Node, key string, have scalar[string], want string, code inventory.Code) bool {
	switch {
	case have.given() && have.v == want:
		return true
	case have.given():
		d.refuse(have.node, refusal{code: code, message: "is not a document that Plinth reads", accepted: want, suggestion: want})
	case !d.has(root, key):
		d.refuse(root, refusal{code: inventory.Missing, message: key + " is missing", accepted: key + ": " + want, suggestion: key + ": " + want})
	}
	return false
}

// sameName refuses a second inventory.
func (d *decoder) sameName(whole, r *rawInventory) bool {
	if whole.Metadata.Name.v == r.Metadata.Name.v {
		return true
	}
	d.refuse(r.Metadata.Name.node, refusal{code: inventory.OtherInventory, message: "is another inventory, and there is one at a time",
		accepted: whole.Metadata.Name.v, suggestion: whole.Metadata.Name.v}, whole.Metadata.Name.node)
	return false
}
