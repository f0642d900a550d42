package importer

import (
	"iter"

	"go.yaml.in/yaml/v4"
)

// pairs are the keys of a mapping with their values; none: the node is nil, or no mapping.
func pairs(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; node != nil && node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], node.Content[i+1]) {
				return
			}
		}
	}
}

// child is the value of a key; nil: there is none, or the node is nil or no mapping.
func child(node *yaml.Node, key string) *yaml.Node {
	for k, value := range pairs(node) {
		if k.Value == key {
			return value
		}
	}
	return nil
}

// contentOf are the nodes in a list or mapping; none: there is no node.
func contentOf(node *yaml.Node) []*yaml.Node {
	if node == nil {
		return nil
	}
	return node.Content
}

// scalarOf is the text of a scalar; empty: the node is nil, or no scalar.
func scalarOf(node *yaml.Node) string {
	if node != nil && node.Kind == yaml.ScalarNode {
		return node.Value
	}
	return ""
}

// valueOf is the scalar at a key.
func valueOf(node *yaml.Node, key string) string { return scalarOf(child(node, key)) }
