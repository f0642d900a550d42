package main

import (
	"errors"
	"fmt"
	"go/ast"
	gobuild "go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"plinth.dev/plinth/test/gotest"
)

// tally is what came of a suite.
type tally struct {
	passed  int
	failed  []string // names of tests, also of those that were skipped: each can run
	stories int      // that there are
	err     error    // of go test
}

func (t tally) good() bool {
	return t.err == nil && len(t.failed) == 0 && t.passed > 0 && t.passed >= t.stories
}

// String is a cell of the README's table.
func (t tally) String() string {
	switch {
	case t.good():
		return fmt.Sprintf("%d passed", t.passed)
	case len(t.failed) > 0:
		return fmt.Sprintf("**%d of %d failed**", len(t.failed), t.passed+len(t.failed))
	case t.err == nil && t.passed > 0:
		return fmt.Sprintf("**%d of %d ran**", t.passed, t.stories)
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

// stories counts the tests of a suite's sources, which are to run.
func (s suite) stories(root string) (number int, err error) {
	like := gobuild.Default
	like.BuildTags = tags
	for _, folder := range s.folders() {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(root, "test", folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			if ours, err := like.MatchFile(filepath.Dir(file), entry.Name()); err != nil || !ours {
				return err
			}
			n, err := testsIn(file)
			number += n
			return err
		}))
	}
	return number, err
}

// testsIn counts the tests of a file.
func testsIn(file string) (number int, err error) {
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	for _, declared := range source.Decls {
		if f, is := declared.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			number++
		}
	}
	return number, nil
}
