package still

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// look is how often programs are looked at. Each thread of theirs is a file that is read.
const look = 200 * time.Millisecond

// follow notes when threads of programs wait, by the second field of schedstat: for how long a thread was ready and did
// not run (Documentation/scheduler/sched-stats.rst of Linux). It grows when the thread runs again.
func (w *Watch) follow(ctx context.Context) {
	waited := map[string]time.Duration{} // by thread
	for every := time.NewTicker(look); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
		}
		now, next := time.Now(), map[string]time.Duration{}
		for pid, name := range w.running() {
			threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat") // none: it has ended
			for _, file := range threads {
				delay, ok := runDelay(file)
				if !ok {
					continue
				}
				next[file] = delay
				if before, known := waited[file]; known && delay-before >= tooLong {
					w.note(Wait{fmt.Sprintf("%s (process %s)", name, pid), now.Add(before - delay), delay - before})
				}
			}
		}
		waited = next
	}
}

// running are the processes of the programs, by their number, with their names.
func (w *Watch) running() map[string]string {
	all := map[string]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/comm") // no pattern of ours is wrong
	for _, file := range files {
		text, err := os.ReadFile(file)
		if name := strings.TrimSpace(string(text)); err == nil && slices.Contains(w.programs, name) {
			all[filepath.Base(filepath.Dir(file))] = name
		}
	}
	return all
}

func runDelay(file string) (time.Duration, bool) {
	text, err := os.ReadFile(file)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	ns, err := strconv.ParseInt(fields[1], 10, 64)
	return time.Duration(ns), err == nil
}
