//go:build !linux

package uptime

import "time"

var begun = time.Now()

// Now is the time since this process began, by Go's monotonic clock. Elsewhere than on Linux the
// command line alone runs, and it measures nothing but how long it waits.
func Now() time.Duration { return time.Since(begun) }
