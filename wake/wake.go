package wake

import (
	"context"
	"time"
)

// Up wakes the goroutine that receives from a channel with room for one value. It never waits: a goroutine that was
// woken and has not yet received is woken once.
func Up(sleeper chan<- struct{}) {
	select {
	case sleeper <- struct{}{}:
	default:
	}
}

// After waits for some time, or until ctx ends, and reports whether ctx has not ended.
func After(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
