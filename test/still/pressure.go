package still

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Calm waits until for some seconds somebody lacked a processor in less than a fifth of the time (line "some" of
// /proc/pressure/cpu, Linux 4.20), or until ctx ends. A kernel that does not count that is never waited for.
func Calm(ctx context.Context, seconds int) {
	for calm := 0; calm < seconds && ctx.Err() == nil; {
		before, err := Pressure()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		after, err := Pressure()
		if err != nil {
			return
		}
		calm++
		if after-before >= time.Second/5 {
			calm = 0
		}
	}
}

// Pressure is for how long somebody lacked a processor since the machine was booted.
func Pressure() (time.Duration, error) {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	_, total, there := strings.Cut(line, "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if !there || err != nil {
		return 0, fmt.Errorf("/proc/pressure/cpu: %q", text)
	}
	return time.Duration(us) * time.Microsecond, nil
}

// Busy is how long all processors have worked, and how long there have been processors, since the machine was booted, in
// its own units (proc(5), /proc/stat).
func Busy() (worked, all uint64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil || i > 8 { // user and nice have guests in them
			continue
		}
		all += n
		if i != 4 && i != 5 { // idle, and waiting for a disk
			worked += n
		}
	}
	return worked, all
}
