package document

import (
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// typing has the nodes of documents that may be shown: keys, and the scalars that stand where the schema has a type for one, be they of
// the wrong form. An inventory holds no password, so that one can only stand anywhere else: below a key that is unknown
// there, in the place of a mapping, or in that of the name of a Secret.
type typing struct {
	typed  map[*yaml.Node]bool
	hidden map[*yaml.Node]bool // also where an alias in another place has a type
	seen   map[seat]bool
}

// seat is a node in a place that wants a type; nil: none.
type seat struct {
	node *yaml.Node
	want reflect.Type
}

// typesOf holds documents against the schema.
func typesOf(pages []page) *typing {
	t := &typing{typed: map[*yaml.Node]bool{}, hidden: map[*yaml.Node]bool{}, seen: map[seat]bool{}}
	for _, p := range pages {
		t.hold(p.root, reflect.TypeFor[rawInventory]())
	}
	return t
}

// hides reports whether a node is not to be shown.
func (t *typing) hides(n *yaml.Node) bool { return t.hidden[n] || !t.typed[n] }

// hold notes what a node, and all that is in it, is in a place that wants a type. A list may stand for a value, and a value
// for a list: that is a mistake to be seen.
func (t *typing) hold(node *yaml.Node, want reflect.Type) {
	at := seat{node, want}
	if node == nil || t.seen[at] {
		return
	}
	t.seen[at] = true
	tagged := node.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(node.ShortTag(), "!!")
	if want == nil || tagged || node.Kind == yaml.ScalarNode && node.Value != "" && !isScalar(want) {
		t.hidden[node] = true
	} else {
		t.typed[node] = true
	}
	t.hold(node.Alias, want)
	if node.Kind == yaml.SequenceNode {
		for _, item := range node.Content {
			t.hold(item, want)
		}
	}
	for key, value := range pairs(node) {
		if entry, ok := entryType(want); ok {
			t.typed[key] = true
			t.hold(value, entry)
		} else {
			t.holdKey(node, key, value, want)
		}
	}
}

// holdKey is hold for a key of a mapping and its value. A key that is unknown is shown where it looks like one; its value is not.
func (t *typing) holdKey(mapping, key, value *yaml.Node, want reflect.Type) {
	all := fieldsByType[want]
	f, known := all[key.Value]
	bare := mapping.Style&yaml.FlowStyle != 0 && isNull(value) // {hunter2}
	switch {
	case known:
		t.typed[key] = true
		t.hold(value, f.wants(want, value))
	case all != nil && key.Tag == "!!merge":
		t.typed[key] = true
		t.hold(value, want)
	case all == nil || want == secretKeyType || bare || !keyForm.MatchString(key.Value):
		t.hidden[key] = true
		t.hold(value, nil)
	default:
		t.typed[key] = true
		if !strings.HasPrefix(key.Value, "x-") { // what stands there has the types of the places that refer to it
			t.hold(value, nil)
		}
	}
}

var (
	secretKeyType = reflect.TypeFor[rawSecretKey]()
	// keyForm matches the form of a key, also of a key of another program's files.
	keyForm = regexp.MustCompile(`^[\w./-]+$`)
)

// wants is the type that the value of a field of a raw type has to have; nil: it is not shown, as what is no name in the
// place of the name or key of a Secret.
func (f field) wants(of reflect.Type, value *yaml.Node) reflect.Type {
	switch form := f.tag.Get("form"); {
	case form == "password":
		return nil
	case form == "gracefulRestart" && deref(value).Kind == yaml.MappingNode:
		return reflect.TypeFor[rawGracefulRestart]()
	case of == secretKeyType:
		if _, ok := f.read.(reader[string])(&decoder{steps: 1000}, deref(value)); !ok && !isNull(value) {
			return nil
		}
	}
	return within(of.FieldByIndex(f.index).Type)
}

// isScalar reports whether a raw type is that of one value.
func isScalar(t reflect.Type) bool {
	_, ok := t.FieldByName("v")
	return ok
}

// within is the type of the items of a list; any other type itself.
func within(t reflect.Type) reflect.Type {
	if v, ok := t.FieldByName("v"); ok && v.Type.Kind() == reflect.Slice {
		return within(v.Type.Elem())
	}
	return t
}

// entryType is the type of the values of a mapping with keys of the writer's own choice.
func entryType(t reflect.Type) (reflect.Type, bool) {
	if t == nil {
		return nil, false
	}
	value, ok := t.FieldByName("value")
	return value.Type, ok
}

// hideValue takes the value of its node out of a problem. The suggestions for an unknown key are other keys, and stay.
func hideValue(problem *inventory.Problem, fault fault) {
	switch fault.code {
	case inventory.InlinePassword: // says nothing of the value
	case inventory.UnknownKey:
		problem.Value = inventory.NotShown
	default:
		if fault.node.Kind == yaml.ScalarNode {
			problem.Value = inventory.NotShown
		}
		if problem.Suggestion != "{}" { // made of the value
			problem.Suggestion = ""
		}
		if strings.ContainsRune(problem.Message, '"') { // it repeats the value
			problem.Message = "is not what is to stand here"
		}
	}
}
