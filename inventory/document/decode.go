package document

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// unknownKey refuses a key. That the one that was meant is missing then needs no saying.
func (d *decoder) unknownKey(mapping, key *yaml.Node, known []string) {
	near := Nearest(key.Value, known)
	if d.meant == nil {
		d.meant = map[meant]bool{}
	}
	d.meant[meant{mapping, near}] = true
	for k := range pairs(mapping) {
		if k.Value == near {
			near = "" // a key is given once
		}
	}
	d.refuse(key, refusal{
		code: inventory.UnknownKey, message: "is an unknown key", value: key.Value,
		accepted: strings.Join(known, ", ") + ", or a key that begins with x-", suggestion: near,
	})
}

// has reports whether a key was written into a mapping, be it badly.
func (d *decoder) has(mapping *yaml.Node, key string) bool {
	return hasKey(mapping, key) || d.meant[meant{mapping, key}]
}

// each yields every key of a mapping once: its own first, then those that it
// merges in (<<) and does not have itself.
func (d *decoder) each(node *yaml.Node, yield func(key, value *yaml.Node)) {
	seen := make(map[string]*yaml.Node, len(node.Content)/2)
	for key, value := range pairs(node) {
		if key.Tag == "!!merge" || !d.step(node) || !d.goodKey(key) {
			continue
		}
		if first, ok := seen[key.Value]; ok {
			d.refuse(key, refusal{code: inventory.KeyTwice, message: "the key is given twice in one mapping", value: key.Value,
				accepted: "each key once"}, first)
			continue
		}
		seen[key.Value] = key
		yield(key, value)
	}
	d.merged(node, seen, yield, 0)
}

// merged yields what n merges in and is not seen yet.
func (d *decoder) merged(n *yaml.Node, seen map[string]*yaml.Node, yield func(key, value *yaml.Node), depth int) {
	for key, value := range pairs(n) {
		if key.Tag != "!!merge" {
			continue
		}
		for _, source := range mergeSources(value) {
			if source.Kind != yaml.MappingNode {
				d.wrongType(source, "a mapping, or a list of mappings, to merge")
				continue
			}
			d.mergeOne(source, seen, yield, depth)
		}
	}
}

func (d *decoder) mergeOne(source *yaml.Node, seen map[string]*yaml.Node, yield func(key, value *yaml.Node), depth int) {
	const deepest = 32
	if depth > deepest {
		d.refuse(source, refusal{code: inventory.TooManyAliases, message: "merges are nested too deeply", accepted: "at most 32 levels"})
		return
	}
	for key, value := range pairs(source) {
		if key.Tag == "!!merge" || seen[key.Value] != nil || !d.step(source) || !d.goodKey(key) {
			continue
		}
		seen[key.Value] = key
		yield(key, value)
	}
	d.merged(source, seen, yield, depth+1)
}

// goodKey refuses keys that are not text.
func (d *decoder) goodKey(key *yaml.Node) bool {
	if key.Kind == yaml.ScalarNode && (key.Tag == "!!str" || key.Tag == "!!int" || key.Tag == "!!float" || key.Tag == "!!bool") {
		return true
	}
	d.wrongType(key, "text as a key")
	return false
}

// step counts the work, so that aliases of aliases cannot make it endless.
func (d *decoder) step(n *yaml.Node) bool {
	d.steps--
	if d.steps == 0 {
		d.refuse(n, refusal{code: inventory.TooManyAliases, message: "aliases make the document more than ten times as large as it is written",
			accepted: "fewer aliases"})
	}
	return d.steps > 0
}

// items yields the items of a sequence and notes where it is. An empty value is
// no sequence at all; an empty item is refused. Of one value in the place of a sequence try tells whether it may be an item.
func (d *decoder) items(node *yaml.Node, at **yaml.Node, yield, try func(*yaml.Node)) {
	node = deref(node)
	if isNull(node) {
		return
	}
	if node.Kind != yaml.SequenceNode {
		d.notAList(node, try)
		return
	}
	*at = node
	for _, item := range node.Content {
		if isNull(deref(item)) {
			d.wrongType(item, "a value after the dash")
			continue
		}
		if d.step(item) {
			yield(item)
		}
	}
}

// entries yields the keys and values of a mapping with keys of the writer's own choice, and
// notes where it is.
func (d *decoder) entries(node *yaml.Node, at **yaml.Node, yield func(key, value *yaml.Node)) {
	node = deref(node)
	switch {
	case isNull(node):
	case node.Kind != yaml.MappingNode:
		d.wrongType(node, "a mapping")
	default:
		*at = node
		d.each(node, yield)
	}
}

// notAList refuses one value where several may stand. It suggests a list of that value where it is one that may be in it.
func (d *decoder) notAList(node *yaml.Node, try func(item *yaml.Node)) {
	d.wrongType(node, "a list")
	refused := len(d.faults)
	if node.Kind != yaml.ScalarNode {
		return
	}
	one := quoted(node.Value)
	item, legible := written(one)
	steps := d.steps
	d.steps = 1000 // what is read to give advice costs the document nothing
	if try(item); legible && len(d.faults) == refused {
		d.faults[refused-1].suggestion = "[" + one + "]"
	}
	d.faults, d.steps = d.faults[:refused], steps
}
