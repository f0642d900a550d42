package latest

import (
	"context"
	"time"
)

// Value hands values to another goroutine. A value that was not taken yet makes way for
// the next one, so that who puts never waits. There is one goroutine that puts.
type Value[T any] chan T

// New returns a value that nobody has put yet.
func New[T any]() Value[T] { return make(Value[T], 1) }

// Put hands over a value. It never waits.
func (n Value[T]) Put(value T) {
	select {
	case <-n:
	default:
	}
	n <- value
}

// Each calls take with the latest value until ctx ends, and then waits before it takes another.
func (n Value[T]) Each(ctx context.Context, wait time.Duration, take func(T)) {
	for {
		select {
		case <-ctx.Done():
			return
		case v := <-n:
			take(v)
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
}
