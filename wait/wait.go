package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	// factor is how many times a limit is waited for. Limits are at least twice what is usual, so this is ten times that.
	factor = 5
	// lastLook is how long the look may take that is made once the time is over.
	lastLook = 10 * time.Second
)

// Within calls look until it returns nil, and waits pause between the calls. The limit is for a quiet machine, and says
// nothing about the program: who claims a duration measures it. The error says how long was waited, and what was seen
// last.
func Within(ctx context.Context, limit, pause time.Duration, look func(context.Context) error) error {
	limit *= factor
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	return Until(bounded, pause, look)
}

// True is Within for a condition, of which ok also says what it has seen, and fails the test when the time is over. It
// works in a test's cleanup, too.
func True(t testing.TB, limit, pause time.Duration, what string, ok func() (good bool, seen string)) {
	t.Helper()
	err := Within(context.Background(), limit, pause, func(context.Context) error {
		if good, seen := ok(); !good {
			return errors.New(seen)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Until is Within whose limit is the deadline of ctx, as it is. Whoever cancels ctx ends it at once.
func Until(ctx context.Context, pause time.Duration, look func(context.Context) error) error {
	var last error
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // what it says once ctx has ended is only that
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) && onceMore(ctx, look) {
				return nil
			}
			return fmt.Errorf("%w: last seen: %w", context.Cause(ctx), last)
		case <-time.After(pause):
		}
	}
}

// onceMore looks once the time is over: this process may have stood still meanwhile.
func onceMore(ctx context.Context, look func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return look(ctx) == nil
}
