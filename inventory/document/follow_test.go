package document

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
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// seenAt is a node of a document with the mappings around it, the innermost last, and their types.
type seenAt struct {
	node   *yaml.Node
	around []typedMapping
}

type typedMapping struct {
	node *yaml.Node
	typ  reflect.Type
}

// nodesAt are the nodes that begin at a place, the outermost first. A mapping is in itself.
func nodesAt(n *yaml.Node, typ reflect.Type, around []typedMapping, line, column int) (out []seenAt) {
	if n.Kind == yaml.MappingNode {
		around = append(slices.Clone(around), typedMapping{n, typ})
	}
	if n.Line == line && n.Column == column {
		out = append(out, seenAt{n, around})
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			out = append(out, nodesAt(c, typ, around, line, column)...)
		}
	}
	for k, v := range pairs(n) {
		var of reflect.Type
		if f, ok := fieldsByType[typ][k.Value]; ok {
			of = within(typ.FieldByIndex(f.index).Type)
		}
		out = append(out, nodesAt(k, nil, around, line, column)...)
		out = append(out, nodesAt(v, of, around, line, column)...)
	}
	return out
}

// remove takes a key, a value or an item out of the mapping or list that it is in.
func remove(root, n *yaml.Node) {
	parent := parentOf(root, n)
	i := slices.Index(parent.Content, n)
	if parent.Kind == yaml.MappingNode {
		parent.Content = slices.Delete(parent.Content, i-i%2, i-i%2+2)
	} else {
		parent.Content = slices.Delete(parent.Content, i, i+1)
	}
}

// parentOf is the mapping or list that a node is in.
func parentOf(root, n *yaml.Node) *yaml.Node {
	for _, c := range root.Content {
		if c == n {
			return root
		}
		if p := parentOf(c, n); p != nil {
			return p
		}
	}
	return nil
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
	atPath  = regexp.MustCompile(`^spec(?:[.\[][^:]*)?\.([A-Za-z0-9]+): `)
	onePart = regexp.MustCompile(`([A-Za-z0-9]+)(?:\[([^\]]+)\])?`)
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

// instead is what lines are written instead of: a password, or a taint, is not to be there.
type instead int

const (
	beside instead = iota
	insteadOfNode
	insteadOfMapping // the mapping that it is in
)

// linesOf are the keys and values of a suggestion that is lines of a mapping, and not a value.
func linesOf(suggestion string) *yaml.Node {
	var lines yaml.Node
	if yaml.Unmarshal([]byte(suggestion), &lines) != nil || len(lines.Content) != 1 || lines.Content[0].Kind != yaml.MappingNode || lines.Content[0].Style&yaml.FlowStyle != 0 {
		return nil
	}
	return lines.Content[0]
}

// follow does what a problem suggests where it stands: it writes lines into the innermost mapping that has keys of that name, and anything
// else in the place of the value, or of the key.
func follow(root *yaml.Node, p inventory.Problem, in instead) error {
	if atPath.MatchString(p.Suggestion) {
		return putAtPath(root, p.Suggestion)
	}
	places := nodesAt(root, reflect.TypeFor[rawInventory](), nil, p.Line, p.Column)
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
	switch in {
	case insteadOfNode:
		remove(root, at.node)
	case insteadOfMapping:
		remove(root, at.around[len(at.around)-1].node)
	case beside: // nothing goes
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

// timesIn is how often a problem is there: of things with one name it may be twice.
func timesIn(all inventory.Problems, p inventory.Problem) (times int) {
	for _, o := range all {
		if o.Code == p.Code && o.Path == p.Path && o.Message == p.Message && o.Value == p.Value {
			times++
		}
	}
	return times
}

// after is the text in which the advice of a problem was followed, and an error where the problem is there still, or the lines have no place
// where they were written.
func after(doc Document, p inventory.Problem, before inventory.Problems, in instead) (string, error) {
	pages, err := readPages(doc)
	if err != nil {
		return "", err
	}
	err = fmt.Errorf("there is nothing at %d:%d", p.Line, p.Column)
	var texts []string
	for _, page := range pages {
		if err != nil {
			err = follow(page.root, p, in)
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
	if timesIn(left, p) >= timesIn(before, p) {
		return text, fmt.Errorf("it stays")
	}
	for _, code := range []inventory.Code{inventory.UnknownKey, inventory.KeyTwice} {
		is := func(p inventory.Problem) bool { return p.Code == code }
		if slices.ContainsFunc(left, is) && !slices.ContainsFunc(before, is) {
			return text, fmt.Errorf("there is %s: the line has no place where it was written", code)
		}
	}
	return text, nil
}

// followAll follows the advice of every problem of a document, each for itself, and counts them.
func followAll(t interface{ Errorf(string, ...any) }, doc Document) (followed int) {
	_, problems := Load(doc)
	for _, p := range problems {
		if p.Suggestion == "" || p.Code == inventory.BadYAML {
			continue
		}
		followed++
		text, err := after(doc, p, problems, beside)
		for in := insteadOfNode; err != nil && in <= insteadOfMapping && linesOf(p.Suggestion) != nil; in++ {
			_, err = after(doc, p, problems, in)
		}
		if err != nil {
			t.Errorf("%v: when that is done, %v:\n%s", p, err, text)
		}
	}
	return followed
}

// Law: of every problem that is raised about a whole inventory, what is suggested, when it is done, is taken: the problem is gone.
func TestEveryProblemIsGoneOnceItsAdviceIsTaken(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		followed += followAll(t, Document{filepath.Base(file), data})
	}
	if followed < 100 {
		t.Errorf("only %d were followed", followed)
	}
}

// The same of good inventories in which some values are those of other fields, so that what is given does not go together.
func TestEveryProblemOfValuesThatDoNotGoTogetherIsGoneOnceItsAdviceIsTaken(t *testing.T) {
	var good [][]byte
	for _, pattern := range []string{"../inventorytest/full.yaml", "../inventorytest/links.yaml", "../inventorytest/pools.yaml", "../inventorytest/home.yaml", "../../examples/*/inventory.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			good = append(good, data)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var document yaml.Node
		if err := yaml.Unmarshal(good[rapid.IntRange(0, len(good)-1).Draw(t, "inventory")], &document); err != nil {
			t.Fatal(err)
		}
		var scalars []*yaml.Node
		walk(document.Content[0], trail{}, func(n *yaml.Node, at *trail) {
			if n.Kind == yaml.ScalarNode && n != at.key {
				scalars = append(scalars, n)
			}
		})
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			from, to := rapid.IntRange(0, len(scalars)-1).Draw(t, "from"), rapid.IntRange(0, len(scalars)-1).Draw(t, "to")
			scalars[to].Value, scalars[to].Tag, scalars[to].Style = scalars[from].Value, scalars[from].Tag, scalars[from].Style
		}
		text, err := yaml.Marshal(&document)
		if err != nil {
			t.Fatal(err)
		}
		followAll(t, Document{"a", text})
	})
}
