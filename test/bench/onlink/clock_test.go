package onlink

import (
	"context"
	"fmt"
	"time"

	"plinth.dev/plinth/test/still"
)

// clock knows when this machine itself stood still.
type clock struct{ *still.Watch }

func watchStalls(ctx context.Context) clock { return clock{still.Begin(ctx)} }

// stalled says how long the machine stood still between two points in time.
type stalled time.Duration

func (s stalled) String() string {
	return fmt.Sprintf("this machine stood still for %s", time.Duration(s).Round(time.Millisecond))
}

func (c clock) within(from, to time.Time) stalled { return stalled(c.Within(from, to)) }
