package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// seenAt is a node of a document with the mappings around it, the innermost last, and their types.
type seenAt struct {
	node   *yaml.Node
	parent *yaml.Node // the mapping or list that it is in
	around []typedMapping
}

type typedMapping struct {
	node *yaml.Node
	typ  reflect.Type
}

// nodesAt are the nodes that begin at a place, the outermost first. A mapping is in itself.
func nodesAt(n, key *yaml.Node, typ reflect.Type, around []typedMapping, line, column int) (out []seenAt) {
	if n.Kind == yaml.MappingNode {
		around = append(slices.Clone(around), typedMapping{n, typ})
	}
	if n.Line == line && n.Column == column {
		out = append(out, seenAt{n, key, around})
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			out = append(out, nodesAt(c, n, typ, around, line, column)...)
		}
	}
	for k, v := range pairs(n) {
		var of reflect.Type
		if f, ok := fieldsByType[typ][k.Value]; ok {
			of = within(typ.FieldByIndex(f.index).Type)
		}
		out = append(out, nodesAt(k, n, nil, around, line, column)...)
		out = append(out, nodesAt(v, n, of, around, line, column)...)
	}
	return out
}

// remove takes a key, a value or an item out of the mapping or list that it is in.
func remove(parent, n *yaml.Node) {
	i := slices.Index(parent.Content, n)
	if parent.Kind == yaml.MappingNode {
		parent.Content = slices.Delete(parent.Content, i-i%2, i-i%2+2)
	} else {
		parent.Content = slices.Delete(parent.Content, i, i+1)
	}
}

// put writes a value under a key of a mapping as people do: into a mapping or a list that is there already, else in its place.
func put(mapping *yaml.Node, key string, value *yaml.Node) {
	for k, old := range pairs(mapping) {
		switch {
		case k.Value != key:
		case old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			for name, v := range pairs(value) {
				put(old, name.Value, v)
			}
			return
		case old.Kind == yaml.SequenceNode && value.Kind == yaml.SequenceNode && (key == "exclude" || key == "communities"):
			old.Content = append(old.Content, value.Content...)
			return
		default:
			*old = *value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

var (
	atPath  = regexp.MustCompile(`^spec(?:[.\[][^:]*)?\.([A-Za-z]+): `)
	onePart = regexp.MustCompile(`([A-Za-z]+)(?:\[([^\]]+)\])?`)
)

// putAtPath follows "spec.racks[r01].subnets: [...]".
func putAtPath(root *yaml.Node, suggestion string) error {
	path, text, _ := strings.Cut(suggestion, ": ")
	at, parts := root, onePart.FindAllStringSubmatch(path, -1)
	for _, part := range parts[:len(parts)-1] {
		next := (*yaml.Node)(nil)
		for k, v := range pairs(at) {
			if k.Value == part[1] {
				next = v
			}
		}
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode}
			put(at, part[1], next)
		}
		if part[2] != "" {
			i := slices.IndexFunc(next.Content, func(item *yaml.Node) bool {
				return slices.ContainsFunc(item.Content, func(c *yaml.Node) bool { return c.Value == part[2] })
			})
			if i < 0 {
				return fmt.Errorf("there is no %s", part[0])
			}
			next = next.Content[i]
		}
		at = next
	}
	value, ok := written(text)
	if !ok {
		return fmt.Errorf("%s cannot be written", text)
	}
	put(at, parts[len(parts)-1][1], value)
	return nil
}

// linesOf are the keys and values of a suggestion that is lines of a mapping, and not a value.
func linesOf(suggestion string) *yaml.Node {
	var lines yaml.Node
	if yaml.Unmarshal([]byte(suggestion), &lines) != nil || len(lines.Content) != 1 || lines.Content[0].Kind != yaml.MappingNode || lines.Content[0].Style&yaml.FlowStyle != 0 {
		return nil
	}
	return lines.Content[0]
}

// follow does what a problem suggests where it stands: it writes lines into the innermost mapping that has keys of that name, and anything
// else in the place of the value, or of the key. Lines may be meant instead of what is refused.
func follow(root *yaml.Node, p Problem, instead bool) error {
	if atPath.MatchString(p.Suggestion) {
		return putAtPath(root, p.Suggestion)
	}
	places := nodesAt(root, root, reflect.TypeFor[rawInventory](), nil, p.Line, p.Column)
	if len(places) == 0 {
		return fmt.Errorf("there is nothing at %d:%d", p.Line, p.Column)
	}
	at := places[0]
	lines := linesOf(p.Suggestion)
	if lines == nil {
		value, ok := written(strings.TrimSuffix(p.Suggestion, withoutQuotes))
		if !ok {
			return fmt.Errorf("cannot be written")
		}
		if at.node.Kind == yaml.MappingNode && value.Kind == yaml.ScalarNode {
			at = places[len(places)-1] // its first key
		}
		*at.node = *value
		return nil
	}
	if instead {
		remove(at.parent, at.node)
	}
	for key, value := range pairs(lines) {
		i := len(at.around) - 1
		for i >= 0 && fieldsByType[at.around[i].typ][key.Value].index == nil {
			i--
		}
		if i < 0 {
			return fmt.Errorf("no mapping around has %s", key.Value)
		}
		put(at.around[i].node, key.Value, value)
	}
	return nil
}

// after is what is left of a problem, and what else is wrong with the form of what was written, once its advice was followed.
func after(doc Document, p Problem, instead bool) (string, error) {
	pages, err := readPages(doc)
	if err != nil {
		return "", err
	}
	err = fmt.Errorf("there is nothing at %d:%d", p.Line, p.Column)
	var texts []string
	for _, page := range pages {
		if err != nil {
			err = follow(page.root, p, instead)
		}
		text, wrong := yaml.Marshal(page.root)
		if wrong != nil {
			return "", wrong
		}
		texts = append(texts, string(text))
	}
	if err != nil {
		return "", err
	}
	text := strings.Join(texts, "---\n")
	_, left := Load(Document{doc.Source, []byte(text)})
	for _, again := range left {
		if again.Code == p.Code && again.Path == p.Path && again.Message == p.Message && again.Value == p.Value {
			return text, fmt.Errorf("it stays")
		}
		if again.Severity == Error && again.Code < "P0400" && again.Code != p.Code {
			return text, fmt.Errorf("it leads to %v", again)
		}
	}
	return text, nil
}

// What is to be written for machines and pools that are in no subnet is taken: the problem is gone.
func TestTheLinesForANetworkAreTaken(t *testing.T) {
	followed := 0
	for _, name := range []string{"in-another-racks-subnet", "link-nowhere", "no-peers", "not-on-link", "outside-subnets", "pool-beside-machines", "pool-in-the-lan"} {
		file := "testdata/" + name + ".bad.yaml"
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc := Document{filepath.Base(file), data}
		_, problems := Load(doc)
		for _, p := range problems {
			if p.Suggestion == "" || p.Code == BadYAML {
				continue
			}
			followed++
			text, err := after(doc, p, false)
			if err != nil && linesOf(p.Suggestion) != nil {
				_, err = after(doc, p, true)
			}
			if err != nil {
				t.Errorf("%v: when that is done, %v:\n%s", p, err, text)
			}
		}
	}
	if followed < 7 {
		t.Errorf("only %d were followed", followed)
	}
}
