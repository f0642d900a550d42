package document

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// place is the position of a node.
type place struct {
	inventory.Position
	path string
}

// place turns the faults into problems: one walk through the documents finds
// the source, line, column and path of every node that one is about.
func (d *decoder) place(pages []page) inventory.Problems {
	wanted := map[*yaml.Node]place{}
	for _, f := range d.faults {
		wanted[f.node] = place{}
		for _, r := range f.related {
			wanted[r] = place{}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	types := typesOf(pages)
	find(pages, types, wanted)
	var out inventory.Problems
	for _, f := range d.faults {
		p := f.problem(wanted)
		if f.node != nil && types.hides(f.node) {
			hideValue(&p, f)
		}
		out = append(out, p)
	}
	return slices.CompactFunc(out.Sorted(), func(a, b inventory.Problem) bool { return a.String() == b.String() })
}

// problem is the fault with its place.
func (f fault) problem(places map[*yaml.Node]place) inventory.Problem {
	at := places[f.node]
	problem := inventory.Problem{
		Source: at.Source, Line: at.Line, Column: at.Column, Path: inventory.CutText(at.path, 1000),
		Severity: cmp.Or(f.severity, inventory.Error), Code: f.code, Message: f.message,
		Value: inventory.CutText(f.value, 200), Accepted: f.accepted, Suggestion: f.suggestion, Example: f.example,
	}
	if f.value == "" && f.node != nil && f.node.Kind == yaml.ScalarNode {
		problem.Value = inventory.CutText(f.node.Value, 200)
	}
	for _, r := range f.related {
		problem.Related = append(problem.Related, places[r].Position)
	}
	slices.SortFunc(problem.Related, inventory.Position.Compare)
	return problem
}

// find fills in the places of the wanted nodes.
func find(pages []page, types *typing, wanted map[*yaml.Node]place) {
	if len(wanted) == 0 {
		return
	}
	for _, p := range pages {
		walk(p.root, trail{}, func(n *yaml.Node, t *trail) {
			if _, ok := wanted[n]; ok {
				wanted[n] = place{inventory.Position{Source: p.source, Line: n.Line, Column: n.Column}, t.path(types)}
			}
		})
	}
}

// trail is the way from the root of a document to a node.
type trail struct {
	parent *trail
	key    *yaml.Node // of a mapping
	item   *yaml.Node // of a sequence
	index  int
}

// walk visits every node of a document as it was written.
func walk(node *yaml.Node, below trail, visit func(*yaml.Node, *trail)) {
	visit(node, &below)
	switch node.Kind {
	case yaml.MappingNode:
		for key, value := range pairs(node) {
			step := trail{parent: &below, key: key}
			walk(key, step, visit)
			walk(value, step, visit)
		}
	case yaml.SequenceNode:
		for i, c := range node.Content {
			walk(c, trail{parent: &below, item: c, index: i}, visit)
		}
	}
}

// path prints the trail as spec.racks[r01].machines[w1].addresses[0]: things
// with a name by their name, others by their index. It ends before a key that is not shown.
func (t *trail) path(types *typing) string {
	switch {
	case t.parent == nil:
		return ""
	case t.item != nil:
		return fmt.Sprintf("%s[%s]", t.parent.path(types), itemName(t.item, t.index, types))
	case types.hides(t.key):
		return t.parent.path(types)
	case t.parent.parent == nil:
		return t.key.Value
	}
	return t.parent.path(types) + "." + t.key.Value
}

// itemName is the name of a list item, or else its index.
func itemName(n *yaml.Node, index int, types *typing) string {
	for key, value := range pairs(n) {
		if v := deref(value); key.Value == "name" && v.Kind == yaml.ScalarNode && v.Value != "" && !types.hides(v) {
			return v.Value
		}
	}
	return fmt.Sprint(index)
}

// positionsOf remembers where each rack and machine was written, for problems
// that come up later.
func positionsOf(raw *rawInventory, pages []page) map[string]inventory.Position {
	source := map[*yaml.Node]string{}
	for _, p := range pages {
		for _, value := range pairs(p.root) {
			for _, section := range value.Content {
				for _, item := range section.Content {
					source[item] = p.source
				}
			}
		}
	}
	out := map[string]inventory.Position{}
	for _, r := range raw.Spec.Racks.v {
		src := source[r.node]
		out[inventory.RackPath(r.Name.v)] = inventory.Position{Source: src, Line: r.node.Line, Column: r.node.Column}
		for _, m := range r.Machines.v {
			out[inventory.MachinePath(r.Name.v, m.Name.v)] = inventory.Position{Source: src, Line: m.node.Line, Column: m.node.Column}
		}
	}
	return out
}
