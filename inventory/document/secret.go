package document

import (
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// NotShown stands in a [Problem], or in a line, for what may be a password.
const NotShown = "(not shown)"

// typing tells the nodes of documents that the schema has a type for from those that may be a password. An inventory holds none, so
// one stands where no inventory has anything: below a key that is unknown there, or in the place of a password or of the names
// of its Secret. What stands anywhere else is shown, whatever it is called: a label, a taint, a value of the wrong form.
type typing struct {
	typed  map[*yaml.Node]bool
	secret map[*yaml.Node]bool // also where an alias in another place has a type
	seen   map[seat]bool
}

// seat is a node in a place that wants a type; nil: none.
type seat struct {
	node *yaml.Node
	want reflect.Type
}

// typesOf holds documents against the schema.
func typesOf(pages []page) *typing {
	t := &typing{typed: map[*yaml.Node]bool{}, secret: map[*yaml.Node]bool{}, seen: map[seat]bool{}}
	for _, p := range pages {
		t.hold(p.root, reflect.TypeFor[rawInventory]())
	}
	return t
}

// hides reports whether a node may be a password, or a part of one. What nobody refers to below a key that begins with x- has
// no type, either.
func (t *typing) hides(n *yaml.Node) bool { return t.secret[n] || !t.typed[n] }

// hold notes what a node, and all that is in it, is in a place that wants a type. A list may stand for a value, and a value
// for a list: that is a mistake to be seen. Text in the place of a mapping has a type only where no secret can be in that mapping.
func (t *typing) hold(n *yaml.Node, want reflect.Type) {
	at := seat{n, want}
	if n == nil || t.seen[at] {
		return
	}
	t.seen[at] = true
	if want == nil || n.Kind == yaml.ScalarNode && n.Value != "" && bearsSecret[want] || n.Style&yaml.TaggedStyle != 0 && want == secretKeyType {
		t.secret[n] = true
	} else {
		t.typed[n] = true
	}
	t.hold(n.Alias, want)
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			t.hold(item, want)
		}
	}
	for key, value := range pairs(n) {
		if entry, ok := entryType(want); ok {
			t.typed[key] = true
			t.hold(value, entry)
		} else {
			t.holdKey(n, key, value, want)
		}
	}
}

// holdKey is hold for a key of a mapping and its value.
func (t *typing) holdKey(mapping, key, value *yaml.Node, want reflect.Type) {
	all := fieldsByType[want]
	f, known := all[key.Value]
	if !known && want != secretKeyType {
		f, known = all[evident(key.Value, all.keys())]
	}
	switch {
	case all != nil && key.Tag == "!!merge":
		t.typed[key] = true
		t.hold(value, want)
	case known:
		t.typed[key] = true
		t.hold(value, f.wants(want, value))
	case all != nil && strings.HasPrefix(key.Value, "x-") && keyForm.MatchString(key.Value):
		t.typed[key] = true
	case all == nil || want == secretKeyType || !keyForm.MatchString(key.Value) || mapping.Style&yaml.FlowStyle != 0 && isNull(value):
		t.hold(key, nil) // it may be no key at all: {password hunter2}
		t.hold(value, nil)
	default:
		t.typed[key] = true
		t.hold(value, nil)
	}
}

var (
	secretKeyType = reflect.TypeFor[rawSecretKey]()
	// keyForm is what a key looks like, also one that somebody brought along from elsewhere.
	keyForm = regexp.MustCompile(`^[\w./-]+$`)
	// bearsSecret has the raw types in which a session's password may be meant.
	bearsSecret = map[reflect.Type]bool{}
)

// wants is the type that the value of a field of a raw type has to have; nil: it may be a password. What is no name in the
// place of a Secret's name or key may be one.
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

// secretWithin reports whether a password may be meant in a raw type, or in one of those in it.
func secretWithin(t reflect.Type) bool {
	for _, f := range fieldsByType[t] {
		if in := within(t.FieldByIndex(f.index).Type); in == secretKeyType || secretWithin(in) {
			return true
		}
	}
	return t == secretKeyType
}

// valueInMessage finds what a message repeats of a value: text in quotes, or a tag.
var valueInMessage = regexp.MustCompile(`(tagged )\S*[^\s,]|"(?:[^"\\]|\\.)*"`)

// hideValue takes the value of its node out of a problem. The suggestions for an unknown key are other keys, and stay.
func hideValue(p *inventory.Problem, f fault) {
	if f.value == NotShown {
		return
	}
	if f.node.Kind == yaml.ScalarNode {
		p.Value = NotShown
		if f.code != inventory.UnknownKey {
			p.Suggestion = ""
		}
	}
	p.Message = valueInMessage.ReplaceAllString(p.Message, "${1}"+NotShown)
}
