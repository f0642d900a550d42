package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Eventually calls f until it returns nil, and waits pause between the calls.
// When ctx ends first, the error is the last one of f.
func Eventually(ctx context.Context, pause time.Duration, f func(context.Context) error) error {
	var last error
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // what f says once ctx has ended is only that
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: last seen: %w", context.Cause(ctx), last)
		case <-time.After(pause):
		}
	}
}

// Within is Eventually with a deadline of its own. The limit is for a quiet machine:
// five times as long is waited, since others may use this one. It claims nothing: who
// claims a duration measures it.
func Within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	limit *= 5
	bounded, cancel := context.WithTimeoutCause(ctx, limit, errors.New("not within "+limit.String()))
	defer cancel()
	err := Eventually(bounded, 50*time.Millisecond, f)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// This process may have stood still when the time was over: one look more.
	last, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	if f(last) == nil {
		return nil
	}
	return err
}

// lastLook is how long the look may take that is made once the time is over.
const lastLook = 10 * time.Second
