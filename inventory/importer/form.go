package importer

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory/document"
)

// form is how a source's documents are written where they are no objects of Kubernetes. Text and files may be nil. A part says with
// false that something is not its own.
type form struct {
	text  func(document.Document) ([]*object, Notes, bool)              // a whole document, which need not be YAML
	page  func(source string, root *yaml.Node) ([]*object, Notes, bool) // one document of YAML
	files func(name string) bool                                        // of a folder, besides those of YAML and JSON
}

// forms are the forms of sources, in the order in which they are tried: the one that accepts the least comes first.
var forms = []struct {
	source string
	form
}{
	{"netbox", form{page: netboxPage}},
	{"ansible", form{ansibleText, ansiblePage, ansibleFile}},
}

// formsOf returns the forms of some sources.
func formsOf(names []string) (all []form) {
	for _, f := range forms {
		if slices.Contains(names, f.source) {
			all = append(all, f.form)
		}
	}
	return all
}

// Reads reports which files of a folder some sources read, besides those that end with .yaml, .yml and .json.
func Reads(names ...string) func(path string) bool {
	return func(file string) bool {
		return slices.ContainsFunc(formsOf(names), func(f form) bool { return f.files != nil && f.files(file) })
	}
}

// asText asks each form for a whole document.
func asText(all []form, doc document.Document) ([]*object, Notes, bool) {
	for _, f := range all {
		if f.text == nil {
			continue
		}
		if objects, notes, ok := f.text(doc); ok {
			return objects, notes, true
		}
	}
	return nil, nil, false
}

// asPage asks each form for one document of YAML, which else is of Kubernetes.
func asPage(all []form, source string, root *yaml.Node) ([]*object, Notes) {
	for _, f := range all {
		if objects, notes, ok := f.page(source, root); ok {
			return objects, notes
		}
	}
	return objectsIn(source, root)
}

// pagesOf are the documents of a text of YAML, each plain.
func pagesOf(text []byte) (pages []*yaml.Node, err error) {
	loader, err := yaml.NewLoader(strings.NewReader(string(text)))
	for err == nil {
		var page yaml.Node
		if err = loader.Load(&page); err == nil && len(page.Content) == 1 {
			var one *yaml.Node
			if one, err = plain(page.Content[0]); err == nil {
				pages = append(pages, one)
			}
		}
	}
	return pages, err
}

// endsWith reports whether a file's name has one of some endings.
func endsWith(file string, endings ...string) bool {
	return slices.Contains(endings, strings.ToLower(path.Ext(file)))
}

// scalar is a text at a place.
func scalar(value string, line, column int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: line, Column: column}
}

// mapping is one of keys and their nodes, at the place of the first. A nil node, or one without content, is left out.
func mapping(pairs ...any) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(pairs); i += 2 {
		value := pairs[i+1].(*yaml.Node)
		if value == nil || value.Kind != yaml.ScalarNode && len(value.Content) == 0 {
			continue
		}
		node.Content = append(node.Content, scalar(pairs[i].(string), value.Line, value.Column), value)
		if node.Line == 0 {
			node.Line, node.Column = value.Line, value.Column
		}
	}
	return node
}
