package agent

import "context"

// newest hands values to another goroutine. A value that was not taken yet makes way for
// the next one, so that who puts never waits. There is one goroutine that puts.
type newest[T any] chan T

func newNewest[T any]() newest[T] { return make(newest[T], 1) }

func (n newest[T]) put(value T) {
	select {
	case <-n:
	default:
	}
	n <- value
}

// each calls take with every value until ctx ends.
func (n newest[T]) each(ctx context.Context, take func(T)) {
	for {
		select {
		case <-ctx.Done():
			return
		case v := <-n:
			take(v)
		}
	}
}
