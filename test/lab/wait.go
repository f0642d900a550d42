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
// three times as long is waited, since others may use this one.
func Within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	return within(ctx, 3*limit, f)
}

// within is Within for a limit that is a claim.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("not within "+limit.String()))
	defer cancel()
	return Eventually(ctx, 50*time.Millisecond, f)
}
