package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// tally is what came of a suite.
type tally struct {
	passed int
	failed []string // names of tests, also of those that were skipped: each can run
	err    error    // of go test
}

func (t tally) good() bool { return t.err == nil && len(t.failed) == 0 && t.passed > 0 }

// String is a cell of the README's table.
func (t tally) String() string {
	switch {
	case t.good():
		return fmt.Sprintf("%d passed", t.passed)
	case len(t.failed) > 0:
		return fmt.Sprintf("**%d of %d failed**", len(t.failed), t.passed+len(t.failed))
	case t.err == nil:
		return "**no test ran**"
	}
	return "**failed**"
}

// follow runs go test -json, writes what the tests print, and counts them.
func follow(cmd *exec.Cmd, log io.Writer) tally {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return tally{err: err}
	}
	if err := cmd.Start(); err != nil {
		return tally{err: err}
	}
	t, err := count(out, log)
	_, rest := io.Copy(log, out) // what is no event: go test must not wait for a reader
	t.err = errors.Join(err, rest, cmd.Wait())
	return t
}

// count reads the events of go test -json. A story counts once, whatever it consists of.
func count(events io.Reader, log io.Writer) (tally, error) {
	var t tally
	for d := json.NewDecoder(events); ; {
		var e struct{ Action, Test, Output string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return t, fmt.Errorf("reading what go test says: %w", err)
		}
		if _, err := io.WriteString(log, e.Output); err != nil {
			return t, err
		}
		story := e.Test != "" && !strings.Contains(e.Test, "/")
		switch {
		case story && e.Action == "pass":
			t.passed++
		case story && (e.Action == "fail" || e.Action == "skip"):
			t.failed = append(t.failed, e.Test)
		}
	}
}
