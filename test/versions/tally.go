package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"

	"plinth.dev/plinth/test/gotest"
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
	var unwritten error
	results, err := gotest.Read(events, func(line string) {
		_, err := io.WriteString(log, line)
		unwritten = errors.Join(unwritten, err)
	})
	for _, r := range results {
		switch {
		case r.Outcome == gotest.Passed:
			t.passed++
		case r.Test != "":
			t.failed = append(t.failed, r.Test)
		}
	}
	return t, errors.Join(err, unwritten)
}
