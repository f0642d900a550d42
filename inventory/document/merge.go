package document

import (
	"reflect"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// merge adds what one document says in a raw type to what others said. Lists of named things
// and mappings of free keys are joined; all else may be given once.
func (d *decoder) merge(into, from any) {
	if at := into.(mapping).at(); *at == nil {
		*at = *from.(mapping).at()
	}
	to, what := reflect.ValueOf(into).Elem(), reflect.ValueOf(from).Elem()
	for _, f := range fieldsByType[to.Type()] {
		into, from := to.FieldByIndex(f.index).Addr().Interface(), what.FieldByIndex(f.index).Addr().Interface()
		if v, ok := into.(decodable); ok {
			v.merge(d, from, f.tag.Get("merge") == "once")
		} else {
			d.merge(into, from)
		}
	}
}

// merge takes a value over, unless another document gave one.
func (s *scalar[T]) merge(d *decoder, from any, _ bool) {
	if d.givenOnce(s.node, from.(*scalar[T]).node) {
		*s = *from.(*scalar[T])
	}
}

// merge appends what another document gave.
func (l *list[T]) merge(d *decoder, from any, once bool) {
	other := from.(*list[T])
	if once && !d.givenOnce(l.node, other.node) {
		return
	}
	if l.node == nil {
		l.node = other.node
	}
	l.v = append(l.v, other.v...)
}

// givenOnce reports whether only the second of two documents gave a value; that both did is refused.
func (d *decoder) givenOnce(first, second *yaml.Node) bool {
	if first != nil && second != nil {
		d.refuse(second, refusal{code: inventory.GivenTwice, message: "is given in two documents",
			accepted: "one place for each value; only lists of named things and mappings are joined"}, first)
	}
	return first == nil && second != nil
}
