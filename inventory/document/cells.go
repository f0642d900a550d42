package document

import (
	"iter"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// scalar is one value and the place where it was written. Its node is nil where
// nobody wrote it.
type scalar[T any] struct {
	v    T
	node *yaml.Node
}

func (s scalar[T]) given() bool { return s.node != nil }

// or returns the value, or d where none was written.
func (s scalar[T]) or(d T) T {
	if s.given() {
		return s.v
	}
	return d
}

// option returns the value as the core types have it.
func option[T comparable](s scalar[T]) inventory.Option[T] {
	return inventory.Option[T]{Value: s.v, Set: s.given()}
}

// list is a sequence of values and the place where it was written.
type list[T any] struct {
	v    []T
	node *yaml.Node
}

func (l list[T]) given() bool { return l.node != nil }

// each yields a pointer to every item.
func (l *list[T]) each() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range l.v {
			if !yield(&l.v[i]) {
				return
			}
		}
	}
}

// oneOrMore is a sequence of mappings, or one mapping in the place of a sequence of one.
type oneOrMore[T any] struct{ list[T] }

// entries is a mapping with keys of the writer's own choice.
type entries[T any] = list[entry[T]]

// entry is one key of such a mapping, with its value.
type entry[T any] struct {
	key   scalar[string]
	value scalar[T]
}

// mapped is the place where a mapping was written; nil: nowhere.
type mapped struct{ node *yaml.Node }

func (m *mapped) at() **yaml.Node { return &m.node }
