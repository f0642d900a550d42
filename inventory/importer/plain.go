package importer

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// mostNodes bounds what aliases may make of a document: a cluster of 5,000 Nodes has about two million.
const mostNodes = 8_000_000

// unplain is the error of a part of a document that cannot be read, with its place.
type unplain struct {
	at      *yaml.Node
	message string
}

func (u *unplain) Error() string { return u.message }

// maxDepth bounds the walk through a document, whose aliases may form a ring.
const maxDepth = 64

// plain is a node with a copy of what it refers to in the place of each alias and merge key (https://yaml.org/type/merge.html), so that
// everything stands where it counts. A key that is there twice is an error, for nobody knows which one counts.
func plain(n *yaml.Node) (*yaml.Node, error) {
	budget := mostNodes
	return copied(n, &budget, 0)
}

func copied(node *yaml.Node, budget *int, depth int) (*yaml.Node, error) {
	if *budget--; *budget < 0 || depth > maxDepth {
		return nil, &unplain{node, "it is nested too deeply, or its aliases make it too large to be read"}
	}
	if node.Kind == yaml.AliasNode {
		return copied(node.Alias, budget, depth+1)
	}
	to := *node
	to.Anchor, to.Content = "", nil
	if node.Kind != yaml.MappingNode {
		for _, item := range node.Content {
			one, err := copied(item, budget, depth+1)
			if err != nil {
				return nil, err
			}
			to.Content = append(to.Content, one)
		}
		return &to, nil
	}
	return &to, copiedPairs(&to, node, budget, depth)
}

// copiedPairs fills a mapping: what it merges counts where it has no such key itself.
func copiedPairs(to, from *yaml.Node, budget *int, depth int) error {
	have := map[string]bool{}
	var merged []*yaml.Node
	for key, given := range pairs(from) {
		value, err := copied(given, budget, depth+1)
		if err != nil {
			return err
		}
		if key.Tag == "!!merge" || key.Value == "<<" && key.Style == 0 {
			merged = append(merged, mappingsOf(value)...)
			continue
		}
		if have[key.Value] {
			return &unplain{key, fmt.Sprintf("the key %q is there twice in one mapping", key.Value)}
		}
		have[key.Value] = true
		to.Content = append(to.Content, key, value)
	}
	for _, one := range merged {
		for key, value := range pairs(one) {
			if !have[key.Value] {
				have[key.Value] = true
				to.Content = append(to.Content, key, value)
			}
		}
	}
	return nil
}

// mappingsOf are the mappings that a merge key has: those of a list, or one.
func mappingsOf(merge *yaml.Node) []*yaml.Node {
	if merge.Kind == yaml.SequenceNode {
		return merge.Content
	}
	return []*yaml.Node{merge}
}
