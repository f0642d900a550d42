package importer

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	sigsyaml "sigs.k8s.io/yaml"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// object is one object of Kubernetes, as it was written, with what becomes of each of its fields.
type object struct {
	source           string
	apiVersion, kind string
	namespace, name  string
	root             *yaml.Node
	fates            map[string]fate // by path, of everything below it, too
	read             bool            // a source has looked at it
}

// fate is the outcome of an import for a field.
type fate string

const (
	carried     fate = "carried" // it is in the inventory
	noted       fate = "noted"   // a note tells of it
	meaningless fate = "meaningless"
)

// String names the object as people do: BGPPeer/tor.
func (o *object) String() string { return o.kind + "/" + o.name }

// group is the API group, without the version.
func (o *object) group() string {
	group, _, ok := strings.Cut(o.apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// readObjects reads documents: those that are in a form of the named sources, and those of Kubernetes. Lists are taken apart. What is no
// YAML, and what is no object, is an error.
func readObjects(docs []document.Document, sources ...string) (all []*object, notes Notes) {
	forms := formsOf(sources)
	for _, doc := range docs {
		found, bad, ok := asText(forms, doc)
		if !ok {
			found, bad = readPages(forms, doc)
		}
		all, notes = append(all, found...), append(notes, bad...)
	}
	return all, notes
}

// readPages reads a document of YAML.
func readPages(forms []form, doc document.Document) (all []*object, notes Notes) {
	pages, err := pagesOf(doc.Data)
	for _, page := range pages {
		found, bad := asPage(forms, doc.Source, page)
		all, notes = append(all, found...), append(notes, bad...)
	}
	if !errors.Is(err, io.EOF) {
		notes = append(notes, unreadable(doc.Source, err))
	}
	return all, notes
}

// unreadable returns a note with the reason why a document is not read.
func unreadable(source string, err error) Note {
	note := Note{Position: inventory.Position{Source: source}, Severity: Error, Code: NotRead, Message: withoutValues(err.Error()) + ": nothing after that is read"}
	if le := (*yaml.LoadError)(nil); errors.As(err, &le) {
		note.Line, note.Column, note.Message = le.Mark.Line, le.Mark.Column, "is not YAML: "+withoutValues(le.Message)+": nothing after that is read"
	}
	if u := (*unplain)(nil); errors.As(err, &u) {
		note.Line, note.Column, note.Message = u.at.Line, u.at.Column, u.message
	}
	return note
}

// quotedValue matches values that a library quotes, but for single characters of YAML. A value may have quotes in it.
var quotedValue = regexp.MustCompile("`.{2,}`|(anchor )'.*'|'[^']{2,}'|\".{2,}\"")

// withoutValues returns the message of a library without the values that it quotes, which may be passwords.
func withoutValues(text string) string {
	return quotedValue.ReplaceAllString(text, "${1}what stands there")
}

// objectsIn returns the objects of one document: one, or the items of a list.
func objectsIn(source string, root *yaml.Node) ([]*object, Notes) {
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	item := &object{source: source, root: root, fates: map[string]fate{}}
	item.apiVersion, item.kind = item.text("apiVersion"), item.text("kind")
	item.namespace, item.name = item.text("metadata.namespace"), item.text("metadata.name")
	if items := item.at("items"); strings.HasSuffix(item.kind, "List") && items != nil && items.Kind == yaml.SequenceNode {
		return itemsOf(source, items)
	}
	if item.kind == "" {
		return nil, Notes{{Position: item.position(""), Severity: Error, Code: NotRead, Message: "is no object of Kubernetes: it has no kind"}}
	}
	item.mark(meaningless, "apiVersion", "kind", "metadata", "status")
	item.mark(carried, "metadata.name")
	return []*object{item}, nil
}

func itemsOf(source string, items *yaml.Node) (all []*object, notes Notes) {
	for _, item := range items.Content {
		found, bad := objectsIn(source, item)
		all, notes = append(all, found...), append(notes, bad...)
	}
	return all, notes
}

// decoded are the objects of a kind, each with what stands in it. A note tells of one that cannot be read.
func decoded[T any](draft *draft, group, kind string) iter.Seq2[*object, *T] {
	return func(yield func(*object, *T) bool) {
		for _, o := range draft.of(group, kind) {
			if value, ok := decode[T](draft, o); ok && !yield(o, value) {
				return
			}
		}
	}
}

// decode reads the object into a type of its own project.
func decode[T any](draft *draft, object *object) (*T, bool) {
	text, err := yaml.Marshal(object.root)
	value := new(T)
	if err == nil {
		err = sigsyaml.Unmarshal(text, value)
	}
	if err != nil {
		object.mark(noted, "")
		draft.fail(object, "", NotValid, "cannot be read: "+withoutWrapping(err))
		draft.ofWhole()
		return nil, false
	}
	return value, true
}

// withoutWrapping is the last part of what the YAML library says of a value.
func withoutWrapping(err error) string {
	text := withoutValues(err.Error())
	if i := strings.LastIndex(text, "json: "); i >= 0 {
		return text[i+len("json: "):]
	}
	return text
}

// mark sets the fate of the fields below some paths. The fate of a longer path counts before that of a shorter one.
func (o *object) mark(f fate, paths ...string) {
	for _, p := range paths {
		o.fates[p] = f
	}
}

// override marks everything below a path as noted, in the place of earlier marks.
func (o *object) override(path string) {
	for p := range o.fates {
		if within(p, path) {
			delete(o.fates, p)
		}
	}
	o.fates[path] = noted
}

// fateOf returns the fate of the field at a path; empty: it was not marked.
func (o *object) fateOf(path string) fate {
	for {
		if f, ok := o.fates[path]; ok {
			return f
		}
		if path == "" {
			return ""
		}
		path = path[:max(0, parentEnd(path))]
	}
}

// parentEnd returns the index at which the path of the mapping or list around a field ends.
func parentEnd(path string) int {
	if strings.HasSuffix(path, "]") {
		return strings.LastIndexByte(path, '[')
	}
	if open := strings.LastIndexByte(path, ']'); open >= 0 {
		return max(open+1, strings.LastIndexByte(path, '.'))
	}
	return strings.LastIndexByte(path, '.')
}

// leaf is a scalar of an object.
type leaf struct {
	path string
	node *yaml.Node
}

// leaves are all scalars of the object, in their order. Empty mappings and lists have none.
func (o *object) leaves() (all []leaf) {
	var walk func(n *yaml.Node, path string)
	walk = func(node *yaml.Node, path string) {
		switch node.Kind {
		case yaml.SequenceNode:
			for i, item := range node.Content {
				walk(item, fmt.Sprintf("%s[%d]", path, i))
			}
		case yaml.MappingNode:
			for key, value := range pairs(node) {
				walk(value, join(path, key.Value))
			}
		default:
			all = append(all, leaf{path, node})
		}
	}
	walk(o.root, "")
	return all
}

// join appends a key to a path: keys that have dots of their own stand in brackets.
func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// at is the node at a path of plain keys; nil: there is none.
func (o *object) at(path string) *yaml.Node {
	node := o.root
	for key := range strings.SplitSeq(path, ".") {
		node = child(node, key)
	}
	return node
}

// text is the scalar at a path of plain keys; empty: there is none.
func (o *object) text(path string) string { return scalarOf(o.at(path)) }

// has reports whether anything is written at or below a path.
func (o *object) has(path string) bool {
	return slices.ContainsFunc(o.leaves(), func(l leaf) bool { return within(l.path, path) })
}

// within reports whether a path is another one, or below it.
func within(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (above == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// position returns the place of the first scalar at or below a path, and else of the object.
func (o *object) position(path string) inventory.Position {
	at := o.root
	for _, l := range o.leaves() {
		if path != "" && within(l.path, path) {
			at = l.node
			break
		}
	}
	return inventory.Position{Source: o.source, Line: at.Line, Column: at.Column}
}
