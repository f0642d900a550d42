package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// realTimePriority is the lowest there is: it goes before ordinary processes, and
// after all others that ask for real time.
const realTimePriority = 1

// realTime makes every thread of this process, and those that they will start, go
// before ordinary processes (SCHED_RR, sched(7)). It needs CAP_SYS_NICE.
func realTime() error {
	done := map[int]bool{}
	for news := true; news; { // a thread may start another meanwhile
		news = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[id] {
				continue
			}
			err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: realTimePriority}, 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("--real-time: %w; it needs the capability SYS_NICE", err)
			}
			done[id], news = true, true
		}
	}
	return nil
}
