// Package procfs reads what a process has used from proc(5).
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used so far.
type Usage struct {
	CPU     time.Duration // of all threads that it has
	Memory  float64       // resident now, in MiB
	Private float64       // of this, what it has in common with nobody: without files
}

// Of reads what a process has used.
func Of(pid int) (u Usage, err error) {
	if u.Memory, u.Private, err = memory(pid); err != nil {
		return u, err
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return u, err
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s: %q: %w", file, text, err)
		}
		u.CPU += time.Duration(ns)
	}
	return u, nil
}

func memory(pid int) (all, private float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for name, to := range map[string]*float64{"VmRSS": &all, "RssAnon": &private} {
		_, rest, there := strings.Cut(string(text), "\n"+name+":")
		words := strings.Fields(rest)
		if !there || len(words) == 0 {
			return 0, 0, fmt.Errorf("process %d has no %s: it has ended", pid, name)
		}
		kib, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("process %d: %s: %w", pid, name, err)
		}
		*to = kib / 1024
	}
	return all, private, nil
}
