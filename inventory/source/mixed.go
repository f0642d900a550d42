package source

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// ReadText reads a file or stream of that name ("-" for the standard input), in which
// other documents may stand beside an inventory, as in what kustomize prints. ConfigMaps
// that bear [LabelInventory] are unwrapped: each key becomes a document of its own.
// Documents of other kinds, and kustomize's own file, are passed over. What may have been
// meant for an inventory never is.
func ReadText(name string, data []byte) Edit {
	var proposed Edit
	proposed.addText(name, data)
	return proposed
}

func (e *Edit) addText(name string, data []byte) {
	mixed := mixed{name: name, edit: e}
	var kept []byte
	if passedOver(name) {
		e.PassedOver = append(e.PassedOver, name)
	}
	for _, text := range yamlDocuments(data) {
		if passedOver(name) || mixed.takes(text) {
			text = bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n"))) // the rest keeps its lines
		}
		kept = append(kept, text...)
		mixed.line += bytes.Count(text, []byte("\n"))
	}
	e.Documents = append(e.Documents, document.Document{Source: name, Data: kept})
	e.Documents = append(e.Documents, mixed.keys...)
}

// passedOver reports whether the file is kustomize's own, which need not say its kind.
func passedOver(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, filepath.Base(name))
}

// yamlDocuments cuts a stream before each line that begins a document. Such a line cannot
// be a part of anything else (YAML 1.2.2, section 9.1.2).
func yamlDocuments(data []byte) [][]byte {
	var out [][]byte
	begin, at := 0, 0
	for line := range bytes.Lines(data) {
		if at > begin && bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3]))) {
			out, begin = append(out, data[begin:at]), at
		}
		at += len(line)
	}
	return append(out, data[begin:])
}

// mixed sorts the documents of one file.
type mixed struct {
	name string
	line int // of the file, before the document
	edit *Edit
	keys []document.Document // of ConfigMaps
}

// takes reports whether a document is no inventory. Of ConfigMaps it takes the keys.
func (m *mixed) takes(text []byte) bool {
	root, ok := rootOf(text)
	if !ok || mayBeInventory(root) {
		return false
	}
	switch kind := textAt(root, "kind"); {
	case textAt(root, "apiVersion") == "v1" && strings.HasSuffix(kind, "List"):
		for _, item := range itemsOf(root) {
			m.object(cmp.Or(textAt(item, "kind"), strings.TrimSuffix(kind, "List")), item, text)
		}
	default:
		m.object(kind, root, text)
	}
	return true
}

// object takes the keys of a ConfigMap of an inventory, and passes over all else.
func (m *mixed) object(kind string, root *yaml.Node, text []byte) {
	ours := kind == "ConfigMap" && cmp.Or(textAt(root, "apiVersion"), "v1") == "v1" && m.configMap(root, text)
	if !ours {
		m.edit.PassedOver = append(m.edit.PassedOver, cmp.Or(kind, m.name))
	}
}

// rootOf is the mapping that a document is; false where it is something else, or cannot
// be read.
func rootOf(text []byte) (*yaml.Node, bool) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, false
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil || len(first.Content) != 1 || first.Content[0].Kind != yaml.MappingNode {
		return nil, false
	}
	return first.Content[0], errors.Is(loader.Load(&second), io.EOF)
}

// sections are the keys by which an inventory is known that does not say what it is.
var sections = []string{"spec", "bgp", "racks", "routers", "pools", "podNetwork"}

// mayBeInventory reports whether the document may be meant for one.
func mayBeInventory(root *yaml.Node) bool {
	kind, version := textAt(root, "kind"), textAt(root, "apiVersion")
	group, _, _ := strings.Cut(version, "/")
	own, _, _ := strings.Cut(inventory.APIVersion, "/")
	if strings.EqualFold(kind, inventory.Kind) || group == own {
		return true
	}
	return (kind == "" || version == "") && slices.ContainsFunc(sections, func(s string) bool { return valueAt(root, s) != nil })
}

// configMap takes the keys of a ConfigMap, and reports whether it is an inventory's.
func (m *mixed) configMap(root *yaml.Node, text []byte) bool {
	metadata := valueAt(root, "metadata")
	label := valueAt(valueAt(metadata, "labels"), LabelInventory)
	var keys []document.Document
	var others []string
	for _, section := range []string{"data", "binaryData"} {
		for key, value := range pairsOf(valueAt(root, section)) {
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if data, ok := contentOf(section, value); ok && carries(key.Value) {
				keys = append(keys, m.key(metadata, key, value, data, text))
			} else {
				others = append(others, m.source(metadata, key))
			}
		}
	}
	name := inventoryIn(keys)
	switch {
	case label == nil && name != "" && valueAt(valueAt(metadata, "labels"), LabelAccepted) == nil:
		at := keyNode(root, "metadata")
		m.refuse(at, inventory.Problem{Severity: inventory.Warning, Code: inventory.Unlabelled, Path: "metadata.labels",
			Message: "the ConfigMap holds an inventory and does not bear the label, so it is not read", Accepted: LabelInventory + ": " + name, Suggestion: LabelInventory + ": " + name})
	case label != nil && name != "" && label.Value != name:
		m.refuse(label, inventory.Problem{Severity: inventory.Error, Code: inventory.OtherInventory, Path: "metadata.labels[" + LabelInventory + "]",
			Message: labelMismatch, Value: label.Value, Accepted: name})
	}
	if label == nil {
		return false
	}
	m.keys = append(m.keys, keys...)
	m.edit.PassedOver = append(m.edit.PassedOver, others...)
	return true
}

// source names a key as the controller does.
func (m *mixed) source(metadata, key *yaml.Node) string {
	name := textAt(metadata, "name")
	if namespace := textAt(metadata, "namespace"); namespace != "" {
		name = namespace + "/" + name
	}
	source := "configmap/" + name + "/" + key.Value
	if m.name != "-" {
		source = m.name + "#" + source
	}
	return source
}

// key makes a document of a key.
func (m *mixed) key(metadata, key, value *yaml.Node, data, text []byte) document.Document {
	source := m.source(metadata, key)
	if m.edit.parts == nil {
		m.edit.parts = map[string]inventory.Position{}
	}
	m.edit.parts[source] = m.begin(key, value, text)
	return document.Document{Source: source, Data: data}
}

// begin returns the place in the file where a key's text begins: in a literal block below its key, and
// without a column at the key where it is written in another way.
func (m *mixed) begin(key, value *yaml.Node, text []byte) inventory.Position {
	written, blank := firstWritten(strings.Split(value.Value, "\n"))
	if value.Style&yaml.LiteralStyle != 0 && written != "" {
		lines := strings.Split(string(text), "\n")
		for i := min(value.Line, len(lines)); i < len(lines); i++ {
			if indent, ok := strings.CutSuffix(strings.TrimRight(lines[i], "\r"), written); ok && strings.Trim(indent, " ") == "" {
				return inventory.Position{Source: m.name, Line: m.line + i + 1 - blank, Column: 1 + len(indent)}
			}
		}
	}
	return inventory.Position{Source: m.name, Line: m.line + key.Line}
}

// firstWritten is the first line that is not blank, and how many are before it.
func firstWritten(lines []string) (line string, blank int) {
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			return line, i
		}
	}
	return "", 0
}

func (m *mixed) refuse(at *yaml.Node, p inventory.Problem) {
	p.Source = m.name
	if at != nil {
		p.Line, p.Column = m.line+at.Line, at.Column
	}
	m.edit.Problems = append(m.edit.Problems, p)
}

// inventoryIn is the name of the first inventory in the documents; empty where none is.
func inventoryIn(docs []document.Document) string {
	for _, d := range docs {
		for _, text := range yamlDocuments(d.Data) {
			if root, ok := rootOf(text); ok && textAt(root, "kind") == inventory.Kind {
				if name := textAt(valueAt(root, "metadata"), "name"); name != "" {
					return name
				}
			}
		}
	}
	return ""
}

func contentOf(section string, value *yaml.Node) ([]byte, bool) {
	if value.Kind != yaml.ScalarNode {
		return nil, false
	}
	if section == "data" {
		return []byte(value.Value), true
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value.Value), ""))
	return data, err == nil
}
