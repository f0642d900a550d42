package uptime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine booted. Unlike Go's monotonic clock it counts the time
// for which the machine was suspended, and unlike the wall clock nobody can set it
// (CLOCK_BOOTTIME, Linux 2.6.39).
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Go itself needs a newer kernel than this clock does
	}
	return time.Duration(t.Nano())
}
