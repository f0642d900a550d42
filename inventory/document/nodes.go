package document

import (
	"iter"
	"slices"

	"go.yaml.in/yaml/v4"
)

// mergeSources are the mappings behind a merge key.
func mergeSources(node *yaml.Node) []*yaml.Node {
	node = deref(node)
	if node.Kind != yaml.SequenceNode {
		return []*yaml.Node{node}
	}
	return converted(node.Content, deref)
}

// pairs yields the keys and values of a mapping as it was written; nothing of what is none.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for pair := range slices.Chunk(n.Content, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// deref follows an alias to what it stands for.
func deref(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// isNull reports whether nothing was written: no value, ~ or null.
func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

func isEmptyList(n *yaml.Node) bool { return n.Kind == yaml.SequenceNode && len(n.Content) == 0 }

// hasKey reports whether a value was written under the key, be it a bad one. An empty list is
// none: nothing of it is stored.
func hasKey(node *yaml.Node, key string) bool {
	node = deref(node)
	for k, value := range pairs(node) {
		if k.Value == key && !isNull(deref(value)) && !isEmptyList(deref(value)) {
			return true
		}
		if k.Tag != "!!merge" {
			continue
		}
		for _, source := range mergeSources(value) {
			if source != node && source.Kind == yaml.MappingNode && hasKey(source, key) {
				return true
			}
		}
	}
	return false
}

// countNodes is the size of a document as it was written.
func countNodes(n *yaml.Node) int {
	total := 1
	for _, c := range n.Content {
		total += countNodes(c)
	}
	return total
}

// converted is a list with each item made into something else.
func converted[T, U any](all []T, convert func(T) U) []U {
	out := make([]U, len(all))
	for i, item := range all {
		out[i] = convert(item)
	}
	return out
}
