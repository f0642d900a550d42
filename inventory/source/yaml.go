package source

import (
	"iter"

	"go.yaml.in/yaml/v4"
)

// pairsOf are the keys and values of a mapping; none of anything else.
func pairsOf(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if node == nil || node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], node.Content[i+1]) {
				return
			}
		}
	}
}

// keyNode and valueAt are the key of a mapping and what stands under it; nil where there
// is none.
func keyNode(n *yaml.Node, name string) *yaml.Node {
	for key := range pairsOf(n) {
		if key.Value == name {
			return key
		}
	}
	return nil
}

func valueAt(n *yaml.Node, name string) *yaml.Node {
	for key, value := range pairsOf(n) {
		if key.Value == name {
			return value
		}
	}
	return nil
}

// textAt is the text under a key; empty where there is none.
func textAt(n *yaml.Node, name string) string {
	if value := valueAt(n, name); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}

func itemsOf(list *yaml.Node) []*yaml.Node {
	if items := valueAt(list, "items"); items != nil && items.Kind == yaml.SequenceNode {
		return items.Content
	}
	return nil
}
