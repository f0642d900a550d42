// Package procfs reads what a process has used from proc(5).
package procfs

import (
	"errors"
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
	all, err1 := status(pid, "VmRSS")
	private, err2 := status(pid, "RssAnon")
	return all, private, errors.Join(err1, err2)
}

// Peak is the most memory that a process had resident since its start or the latest ResetPeak, in MiB.
func Peak(pid int) (float64, error) { return status(pid, "VmHWM") }

// ResetPeak begins a new measurement of Peak.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // proc(5): resets the "high water mark"
}

// status reads an amount of memory from a line of a process's status, in MiB.
func status(pid int, name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, there := strings.Cut(string(text), "\n"+name+":")
	words := strings.Fields(rest)
	if !there || len(words) == 0 {
		return 0, fmt.Errorf("process %d has no %s: it has ended", pid, name)
	}
	kib, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		return 0, fmt.Errorf("process %d: %s: %w", pid, name, err)
	}
	return kib / 1024, nil
}
