package lab

import (
	"context"
	"time"

	"plinth.dev/plinth/wait"
)

// Within is wait.Within, and looks as often as is good for a lab.
func Within(ctx context.Context, limit time.Duration, look func(context.Context) error) error {
	return wait.Within(ctx, limit, 50*time.Millisecond, look)
}
