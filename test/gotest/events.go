package gotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Outcome is what came of a test.
type Outcome string

// The outcomes that there are.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	Broken  Outcome = "broken off" // its process ended before it
)

// Result is what came of one test function. Its subtests are parts of it.
type Result struct {
	Package string
	Test    string // empty: of the package itself, which failed beside its tests
	Outcome Outcome
	Began   time.Time     // zero: the events have no times
	Took    time.Duration // by the clock, with its subtests; of one that waits for others to run beside it, without the wait and these
	Output  []string      // lines, those of its subtests among them
	Parts   []string      // names of its subtests that failed, and that have no subtest which did

	from  []string // the subtest that printed each line of Output; empty: the test itself
	waits bool     // it calls t.Parallel
}

// event is a line of test2json (go doc test2json).
type event struct {
	Time                          time.Time
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// Read follows events until they end, hands each line that is printed to print, and returns a result for each
// test function in the order in which they ended. A package that fails though none of its tests did has one too.
func Read(events io.Reader, print func(line string)) ([]Result, error) {
	r := reader{open: map[string]*Result{}}
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return r.end(), fmt.Errorf("reading what go test says: %w", err)
		}
		if e.Action == "output" {
			print(e.Output)
		}
		r.take(e)
	}
	return r.end(), nil
}

type reader struct {
	open  map[string]*Result // by package and test
	order []string           // of those that are open
	done  []Result
}

func (r *reader) take(e event) {
	name, part, sub := strings.Cut(e.Test, "/")
	key := e.Package + " " + name
	switch e.Action {
	case "start", "run", "output":
		if r.open[key] == nil {
			r.open[key] = &Result{Package: e.Package, Test: name, Began: e.Time}
			r.order = append(r.order, key)
		}
		if e.Action == "output" {
			r.open[key].Output = append(r.open[key].Output, strings.TrimRight(e.Output, "\n"))
			r.open[key].from = append(r.open[key].from, part)
		}
	case "pause":
		if open := r.open[key]; open != nil && !sub {
			open.waits = true
		}
	case "pass", "fail", "skip":
		if sub {
			r.open[key].partEnded(part, e.Action == "fail")
			return
		}
		one := Result{Package: e.Package, Test: name}
		if open := r.open[key]; open != nil {
			one = *open
			delete(r.open, key)
		}
		one.Took = time.Duration(e.Elapsed * float64(time.Second)) // without subtests that call t.Parallel
		if !one.waits && !one.Began.IsZero() {
			one.Took = max(one.Took, e.Time.Sub(one.Began))
		}
		one.Outcome = map[string]Outcome{"pass": Passed, "fail": Failed, "skip": Skipped}[e.Action]
		if name != "" || one.Outcome == Failed && !r.failed(e.Package) {
			r.done = append(r.done, one)
		}
	}
}

// partEnded takes note of a subtest, which is told with its test.
func (r *Result) partEnded(part string, failed bool) {
	if r == nil || !failed || slices.ContainsFunc(r.Parts, func(p string) bool { return strings.HasPrefix(p, part+"/") }) {
		return
	}
	r.Parts = append(r.Parts, part)
}

// failed reports whether a test of a package has failed already, or has not come to its end.
func (r *reader) failed(pkg string) bool {
	for _, one := range r.done {
		if one.Package == pkg && one.Outcome != Passed {
			return true
		}
	}
	for _, one := range r.open {
		if one.Package == pkg && one.Test != "" {
			return true
		}
	}
	return false
}

// end has what is open broken off.
func (r *reader) end() []Result {
	for _, key := range r.order {
		if one := r.open[key]; one != nil && one.Test != "" {
			one.Outcome = Broken
			r.done = append(r.done, *one)
		}
	}
	return r.done
}

// Reason is the first line of a test's output that says why it failed, with the place in the test's source;
// empty where none does. Where subtests failed it is one of theirs, and not what another one logged.
func (r Result) Reason() string {
	var said []string
	for i, line := range r.Output {
		if i < len(r.from) && slices.Contains(r.Parts, r.from[i]) {
			said = append(said, line)
		}
	}
	if reason := reason(said); reason != "" {
		return reason
	}
	return reason(r.Output)
}

func reason(said []string) string {
	for _, line := range said {
		text := strings.TrimSpace(line)
		if place, _, ok := strings.Cut(text, ": "); ok && strings.Contains(place, "_test.go:") && !strings.Contains(place, " ") {
			return text
		}
		if strings.HasPrefix(text, "panic:") || strings.HasPrefix(text, "fatal error:") {
			return text
		}
	}
	for _, line := range said {
		text := strings.TrimSpace(line)
		if text != "" && !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") && text != "FAIL" {
			return text
		}
	}
	return ""
}
