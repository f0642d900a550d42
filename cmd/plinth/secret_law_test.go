package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
)

// freeMaps are the keys of mappings with keys of the writer's own choice.
var freeMaps = []string{"labels", "communities", "attributes", "matchLabels", "reserved"}

// place is a mapping whose keys the schema knows, or a scalar, and the key that leads there.
type place struct {
	node *yaml.Node
	key  string
}

// placesOf are the mappings of an inventory that have keys of the schema, their keys, and the scalars.
func placesOf(n *yaml.Node, key string) (mappings, keys, scalars []place) {
	switch n.Kind {
	case yaml.ScalarNode:
		return nil, nil, []place{{n, key}}
	case yaml.MappingNode:
		if !slices.Contains(freeMaps, key) {
			mappings = append(mappings, place{n, key})
		}
	}
	for i, c := range n.Content {
		within := key
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				if !slices.Contains(freeMaps, key) {
					keys = append(keys, place{c, key})
				}
				continue
			}
			within = n.Content[i-1].Value
		}
		m, k, s := placesOf(c, within)
		mappings, keys, scalars = append(mappings, m...), append(keys, k...), append(scalars, s...)
	}
	if key == "passwordFrom" {
		return mappings, nil, nil // what is no name there is hidden, as it may be the password
	}
	return mappings, keys, scalars
}

// drawStyles writes each part of an inventory in braces or in lines, and drops the comments.
func drawStyles(t *rapid.T, n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind != yaml.ScalarNode {
		n.Style = rapid.SampledFrom([]yaml.Style{0, 0, yaml.FlowStyle}).Draw(t, "style")
	}
	for _, c := range n.Content {
		drawStyles(t, c)
	}
}

// drawMistake changes a value, or misspells a key by one letter, and returns that key.
func drawMistake(t *rapid.T, keys, scalars []place) (misspelt string) {
	if rapid.Bool().Draw(t, "in a key") {
		at := rapid.SampledFrom(keys).Draw(t, "key")
		k := at.node.Value
		i := rapid.IntRange(0, len(k)-1).Draw(t, "letter")
		at.node.Value = rapid.SampledFrom([]string{k[:i] + k[i+1:], k[:i] + k[i:i+1] + k[i:]}).Draw(t, "misspelt")
		return at.node.Value
	}
	at := rapid.SampledFrom(scalars).Draw(t, "value")
	at.node.Style, at.node.Value = 0, rapid.SampledFrom([]string{"pass word!", "secret", "010", "-1", "true", "10.0.0.0/33", "a b: c", "fe80::1", "token", "99999"}).Draw(t, "mistake")
	at.node.Tag = "!!str" // written in quotes where it would be something else
	if rapid.Bool().Draw(t, "without quotes") {
		at.node.Tag = ""
	}
	return ""
}

// drawSecret is a value that has a password in it, from its first word to its last.
func drawSecret(t *rapid.T) *yaml.Node {
	scalar := &yaml.Node{
		Kind: yaml.ScalarNode, Tag: "!!str",
		Value: rapid.SampledFrom([]string{canary, canary + " !", canary + "\n" + canary, canary + "\n\nx: y\n# z\n" + canary, "'" + canary + `"\`, "ä" + canary, "- " + canary, "{" + canary}).Draw(t, "password"),
		Style: rapid.SampledFrom([]yaml.Style{0, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle, yaml.FoldedStyle}).Draw(t, "style of the password"),
	}
	style := rapid.SampledFrom([]yaml.Style{0, yaml.FlowStyle}).Draw(t, "around")
	switch rapid.IntRange(0, 4).Draw(t, "form") {
	case 0:
		return &yaml.Node{Kind: yaml.SequenceNode, Style: style, Content: []*yaml.Node{scalar}}
	case 1:
		return &yaml.Node{Kind: yaml.MappingNode, Style: style, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "secret"}, {Kind: yaml.SequenceNode, Content: []*yaml.Node{scalar}}}}
	case 2:
		return &yaml.Node{Kind: yaml.MappingNode, Style: style, Content: []*yaml.Node{scalar, {Kind: yaml.ScalarNode, Value: canary}}}
	}
	return scalar
}

// addSecret writes a password into a mapping, under a key that it does not have.
func addSecret(t *rapid.T, mappings []place) string {
	at := rapid.SampledFrom(mappings).Draw(t, "where")
	key, secret := rapid.SampledFrom(append([]string{"passwordFrom"}, passwordKeys...)).Draw(t, "key of the password"), drawSecret(t)
	if known := at.key == "passwordFrom" || at.key == "taints" || at.key == "matchExpressions"; known && (key == "key" || key == "secret") {
		key = "password" // of a taint it is no password's, of a Secret it is a name
	}
	content := []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, secret}
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		if at.node.Content[i].Value != key {
			content = append(content, at.node.Content[i:i+2]...)
		}
	}
	turn := 2 * rapid.IntRange(0, len(content)/2-1).Draw(t, "after")
	at.node.Content = append(content[turn:], content[:turn]...)
	return key
}

// goodInventories are the texts of complete inventories.
func goodInventories(t *testing.T) (out [][]byte) {
	for _, pattern := range []string{"../../inventory/inventorytest/full.yaml", "../../inventory/inventorytest/links.yaml", "../../inventory/inventorytest/pools.yaml", "../../examples/*/inventory.yaml", "../../examples/two-rack/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
	}
	return out
}

// Law: of an inventory with one mistake and one password, wherever these are and however they are written, nothing that is
// printed has the password, and every line without it, and not below a misspelt key, is shown as it is.
func TestAPasswordAloneIsHiddenOfAnInventoryWithAMistake(t *testing.T) {
	good := goodInventories(t)
	rapid.Check(t, func(t *rapid.T) {
		var document yaml.Node
		if err := yaml.Unmarshal(good[rapid.IntRange(0, len(good)-1).Draw(t, "inventory")], &document); err != nil {
			t.Fatal(err)
		}
		root := document.Content[0]
		drawStyles(t, root)
		mappings, keys, scalars := placesOf(root, "")
		misspelt := drawMistake(t, keys, scalars)
		key := addSecret(t, mappings)
		text, err := yaml.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		r := report{edit: source.ReadText("a.yaml", text)}
		r.inventory, r.problems = loaded(r.edit)
		for name, write := range writers {
			var b bytes.Buffer
			if err := write(&b, r); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), canary) {
				t.Fatalf("%s tells the password of\n%s\n%s", name, text, b.String())
			}
		}
		if said := fmt.Sprintf("%+v", r.problems); strings.Contains(said, canary) {
			t.Fatalf("a problem has the password of\n%s\n%s", text, said)
		}
		othersAreShown(t, text, key, misspelt)
	})
}

// othersAreShown holds that the lines of a text are shown but for those of the password under a key, and those below a
// misspelt one.
func othersAreShown(t *rapid.T, text []byte, key, misspelt string) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	has := func(line string) bool { return strings.Contains(line, canary) }
	first := slices.IndexFunc(lines, has)
	last := len(lines) - 1
	for !has(lines[last]) {
		last--
	}
	for first > 0 && !strings.Contains(lines[first], key) {
		first-- // the key stands on a line above
	}
	var again yaml.Node
	if err := yaml.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	from, to := linesBelow(&again, misspelt)
	shown := document.Document{Data: text}.Lines()
	for i, line := range lines {
		below := i+1 >= from && i+1 <= to
		if got, _, _ := shown.At(i+1, 1); got != line && (i < first || i > last) && !below {
			t.Fatalf("line %d is shown as\n%s\nof\n%s", i+1, got, text)
		}
	}
}

// linesBelow are the first and the last line of the value of a key, that of the key among them; 0: there is none.
func linesBelow(n *yaml.Node, key string) (from, to int) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == key {
			return c.Line, lastLine(n.Content[i+1])
		}
		if from, to = linesBelow(c, key); to > 0 {
			return from, to
		}
	}
	return 0, 0
}

func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}
