package sorted

import (
	"fmt"
	"iter"
	"slices"
)

// chunkSize is about the square root of how long a list gets: a change copies one chunk,
// and the list of chunks.
const chunkSize = 64

// Item is the type of a [List]'s items. Compare orders by the fields that identify an item, == compares all fields.
type Item[T any] interface {
	comparable
	Compare(T) int
}

// List is a sorted list that has one of all items that compare as equal. It is never
// changed: what is made of it shares with it what stays. Its zero value is empty.
type List[T Item[T]] struct {
	chunks [][]T // none is empty, two neighbours are more than one could hold
	length int
}

// Of returns the list of some items, in any order. Of those that compare as equal it has
// the first.
func Of[T Item[T]](items ...T) List[T] { return List[T]{}.Edit(nil, items) }

// Len returns the number of items.
func (l List[T]) Len() int { return l.length }

// All are the items in their order.
func (l List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, c := range l.chunks {
			for _, x := range c {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// Next is the first item that is not below x; false: all are.
func (l List[T]) Next(x T) (next T, ok bool) {
	at := l.chunk(x)
	if at == len(l.chunks) {
		return next, false
	}
	in, _ := slices.BinarySearchFunc(l.chunks[at], x, T.Compare)
	return l.chunks[at][in], true
}

// Has reports whether there is an item that compares as equal to x.
func (l List[T]) Has(x T) bool {
	next, ok := l.Next(x)
	return ok && next.Compare(x) == 0
}

// Equal reports whether two lists have the same items.
func (l List[T]) Equal(m List[T]) bool {
	gone, put := Diff(l, m)
	return len(gone)+len(put) == 0
}

func (l List[T]) String() string { return fmt.Sprint(slices.Collect(l.All())) }

// chunk is the place of the first chunk that does not end below x; the number of
// chunks, where all do.
func (l List[T]) chunk(x T) int {
	at, _ := slices.BinarySearchFunc(l.chunks, x, func(c []T, x T) int { return c[len(c)-1].Compare(x) })
	return at
}

// Edit returns the list without the items that compare as equal to any of gone, and then
// with those of put, in place of what compares as equal to them. It changes neither.
func (l List[T]) Edit(gone, put []T) List[T] {
	gone, put = order(gone), order(put)
	out := List[T]{length: l.length}
	rest := l
	for len(gone)+len(put) > 0 {
		at := rest.chunk(lowest(gone, put))
		if at == len(rest.chunks) && at > 0 {
			at-- // what is above all goes into the last one
		}
		out.chunks = append(out.chunks, rest.chunks[:at]...)
		rest.chunks = rest.chunks[at:]
		var old []T
		here, there := len(gone), len(put)
		if len(rest.chunks) > 0 {
			old, rest.chunks = rest.chunks[0], rest.chunks[1:]
		}
		if len(rest.chunks) > 0 {
			end := old[len(old)-1]
			here, there = upTo(gone, end), upTo(put, end)
		}
		edited := merge(old, gone[:here], put[:there])
		out.length += len(edited) - len(old)
		gone, put = gone[here:], put[there:]
		out.add(edited)
	}
	if len(rest.chunks) > 0 {
		out.join(rest.chunks[0])
		out.chunks = append(out.chunks, rest.chunks[1:]...)
	}
	return out
}

// order sorts items, leaves the first of each, and leaves alone what was given.
func order[T Item[T]](items []T) []T {
	for i := 1; i < len(items); i++ {
		if items[i-1].Compare(items[i]) >= 0 {
			items = slices.Clone(items)
			slices.SortStableFunc(items, T.Compare)
			return slices.CompactFunc(items, func(a, b T) bool { return a.Compare(b) == 0 })
		}
	}
	return items
}

func lowest[T Item[T]](a, b []T) T {
	if len(b) == 0 || len(a) > 0 && a[0].Compare(b[0]) < 0 {
		return a[0]
	}
	return b[0]
}

// upTo returns the number of items, of some sorted ones, that are not above x.
func upTo[T Item[T]](items []T, x T) int {
	n, found := slices.BinarySearchFunc(items, x, T.Compare)
	if found {
		n++
	}
	return n
}

func merge[T Item[T]](old, gone, put []T) []T {
	out := make([]T, 0, len(old)+len(put))
	for _, left := range old {
		for len(put) > 0 && put[0].Compare(left) < 0 {
			out, put = append(out, put[0]), put[1:]
		}
		for len(gone) > 0 && gone[0].Compare(left) < 0 {
			gone = gone[1:]
		}
		replaced := len(put) > 0 && put[0].Compare(left) == 0
		if !replaced && (len(gone) == 0 || gone[0].Compare(left) != 0) {
			out = append(out, left)
		}
	}
	return append(out, put...)
}

// add appends items in chunks of a good size.
func (l *List[T]) add(items []T) {
	if len(items) <= 2*chunkSize {
		l.join(items)
		return
	}
	for some := range slices.Chunk(items, chunkSize) {
		l.join(slices.Clone(some)) // of its own: one chunk must not keep the memory of all
	}
}

// join appends one chunk, or makes one of it and the last where both are short.
func (l *List[T]) join(chunk []T) {
	last := len(l.chunks) - 1
	switch {
	case len(chunk) == 0:
	case last >= 0 && len(l.chunks[last])+len(chunk) <= chunkSize:
		l.chunks[last] = slices.Concat(l.chunks[last], chunk)
	default:
		l.chunks = append(l.chunks, chunk)
	}
}

// Diff returns the items of old that now does not have in the same way, and the other way round:
// old.Edit(gone, put) has the items of now. Both are sorted, and the caller's own.
func Diff[T Item[T]](old, now List[T]) (gone, put []T) {
	before, other := cursor[T]{chunks: old.chunks}, cursor[T]{chunks: now.chunks}
	for !before.ended() && !other.ended() {
		if before.in == 0 && other.in == 0 && same(before.chunks[0], other.chunks[0]) {
			before.chunks, other.chunks = before.chunks[1:], other.chunks[1:]
			continue
		}
		x, right := before.item(), other.item()
		order := x.Compare(right)
		if order < 0 || order == 0 && x != right {
			gone = append(gone, x)
		}
		if order > 0 || order == 0 && x != right {
			put = append(put, right)
		}
		if order <= 0 {
			before.step()
		}
		if order >= 0 {
			other.step()
		}
	}
	return before.rest(gone), other.rest(put)
}

// same reports whether two chunks are the same memory.
func same[T any](a, b []T) bool { return &a[0] == &b[0] && len(a) == len(b) }

// cursor is a place in a list.
type cursor[T any] struct {
	chunks [][]T
	in     int // the first one
}

func (c *cursor[T]) ended() bool { return len(c.chunks) == 0 }

func (c *cursor[T]) item() T { return c.chunks[0][c.in] }

func (c *cursor[T]) step() {
	if c.in++; c.in == len(c.chunks[0]) {
		c.chunks, c.in = c.chunks[1:], 0
	}
}

func (c *cursor[T]) rest(items []T) []T {
	n := -c.in
	for _, chunk := range c.chunks {
		n += len(chunk)
	}
	items = slices.Grow(items, max(n, 0))
	for !c.ended() {
		items = append(items, c.chunks[0][c.in:]...)
		c.chunks, c.in = c.chunks[1:], 0
	}
	return items
}
