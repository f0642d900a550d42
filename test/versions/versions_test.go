package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"plinth.dev/plinth/test/components"
)

const (
	before = "# P\n" + above + "| Kubernetes | etcd | VIPs | Nodes, inventory | manifests, rights | whole datacenters | real kubelets | commit | on |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n" +
		"| 1.37.1 | 3.7.0 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 33333333 | 2026-01-03 |\n" +
		"| 1.34.9 | 3.6.4 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 22222222 | 2026-01-02 |\n" +
		"| 1.32.1 | 3.5.9 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 11111111 | 2026-01-01 |\n" +
		below + "more\n"
)

func pinned(minors ...string) []components.Pin {
	var pins []components.Pin
	for _, m := range minors {
		pins = append(pins, components.Pin{Minor: m})
	}
	return pins
}

func all(said string) map[string]string {
	cells := map[string]string{}
	for _, s := range suites {
		cells[s.title] = said
	}
	return cells
}

func TestARunChangesTheRowsOfItsVersionsAlone(t *testing.T) {
	pins := pinned("1.33", "1.34", "1.37")
	for name, c := range map[string]struct {
		ran  row
		want []string
	}{
		"a version that had no row": {row{"1.33.5", "3.5.9", all("9 passed"), "2026-02-01", "99999999"}, []string{
			"| 1.37.1 | 3.7.0 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 33333333 | 2026-01-03 |",
			"| 1.34.9 | 3.6.4 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 22222222 | 2026-01-02 |",
			"| 1.33.5 | 3.5.9 | 9 passed | 9 passed | 9 passed | 9 passed | 9 passed | 99999999 | 2026-02-01 |",
		}},
		"another patch": {row{"1.34.10", "3.6.4", all("**1 of 9 failed**"), "2026-02-01", "99999999"}, []string{
			"| 1.37.1 | 3.7.0 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 33333333 | 2026-01-03 |",
			"| 1.34.10 | 3.6.4 | **1 of 9 failed** | **1 of 9 failed** | **1 of 9 failed** | **1 of 9 failed** | **1 of 9 failed** | 99999999 | 2026-02-01 |",
		}},
		"one suite once more": {row{"1.34.9", "3.6.4", map[string]string{"VIPs": "7 passed"}, "2026-02-01", "99999999"}, []string{
			"| 1.37.1 | 3.7.0 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 33333333 | 2026-01-03 |",
			"| 1.34.9 | 3.6.4 | 7 passed | 2 passed | 3 passed | 4 passed | 5 passed | 22222222 | 2026-01-02 |",
		}},
		"one suite of another patch": {row{"1.34.10", "3.6.4", map[string]string{"VIPs": "7 passed"}, "2026-02-01", "99999999"}, []string{
			"| 1.37.1 | 3.7.0 | 1 passed | 2 passed | 3 passed | 4 passed | 5 passed | 33333333 | 2026-01-03 |",
			"| 1.34.10 | 3.6.4 | 7 passed | not run | not run | not run | not run | 99999999 | 2026-02-01 |",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := rewrite(before, pins, []row{c.ran})
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(before, "\n")
			want := strings.Join(slices.Concat(lines[:4], c.want, lines[len(lines)-3:]), "\n")
			if have != want {
				t.Errorf("the README is\n%s\nwant\n%s", have, want)
			}
			if again, err := rewrite(have, pins, nil); err != nil || again != have {
				t.Errorf("nothing ran, and it is\n%s\n%v", again, err)
			}
		})
	}
}

// A suite more makes a column more: rows of before have not run it.
func TestAColumnMoreWasNotRunBefore(t *testing.T) {
	narrow := above + "| Kubernetes | etcd | VIPs | on |\n| --- | --- | --- | --- |\n| 1.34.9 | 3.6.4 | 1 passed | 2026-01-02 |\n" + below
	have, err := rewrite(narrow, pinned("1.34"), nil)
	if want := "| 1.34.9 | 3.6.4 | 1 passed | not run | not run | not run | not run | not recorded | 2026-01-02 |\n"; err != nil || !strings.Contains(have, want) {
		t.Errorf("the README is\n%s, %v", have, err)
	}
}

func TestAReadmeWithoutItsTableIsNotWritten(t *testing.T) {
	for _, readme := range []string{"", above, below, below + above, above + "| a | b |\n|---|---|\n| c |\n" + below} {
		if have, err := rewrite(readme, pinned("1.34"), nil); err == nil {
			t.Errorf("%q became %q", readme, have)
		}
	}
}

func TestAVersionThatFailsKeepsNoOtherFromRunning(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	var recorded []row
	r := runner{
		commit: "00000000",
		record: func(one row) error {
			if recorded = append(recorded, one); one.patch == "1.9.0" {
				return errors.New("the tree has changed")
			}
			return nil
		},
		suites: suites,
		build: func(_ context.Context, pin components.Pin, _ []suite) error {
			if pin.Minor == "1.1" {
				return errors.New("no such compiler")
			}
			return nil
		},
		run: func(_ context.Context, pin components.Pin, s suite) tally {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, pin.Minor+" "+s.name)
			if pin.Minor == "1.2" && s.name == "nodes" {
				return tally{passed: 1, failed: []string{"TestA"}}
			}
			return tally{passed: 2}
		},
	}
	rows, good, err := r.all(t.Context(), []components.Pin{{Minor: "1.1", Kubernetes: "v1.1.0"}, {Minor: "1.2", Kubernetes: "v1.2.0"}, {Minor: "1.3", Kubernetes: "v1.3.0"}})
	if err != nil || good || len(ran) != 2*len(suites) || !reflect.DeepEqual(recorded, rows) {
		t.Errorf("good: %v, %v; ran %q, recorded %v", good, err, ran, recorded)
	}
	for i, want := range []string{
		"| 1.3.0 |  | 2 passed | 2 passed | 2 passed | 2 passed | 2 passed | 00000000 | " + today() + " |",
		"| 1.2.0 |  | 2 passed | **1 of 2 failed** | 2 passed | 2 passed | 2 passed | 00000000 | " + today() + " |",
		"| 1.1.0 |  | **not built** | **not built** | **not built** | **not built** | **not built** | 00000000 | " + today() + " |",
	} {
		if have := strings.Split(table(rows), "\n")[i+2]; have != want {
			t.Errorf("the row is\n%s\nwant\n%s", have, want)
		}
	}
	if _, good, err := r.all(t.Context(), []components.Pin{{Minor: "1.3", Kubernetes: "v1.3.0"}}); err != nil || !good {
		t.Errorf("all passed, and it says good: %v, %v", good, err)
	}
	if rows, _, err := r.all(t.Context(), []components.Pin{{Minor: "1.3", Kubernetes: "v1.3.0"}, {Minor: "1.9", Kubernetes: "v1.9.0"}}); err == nil || len(rows) != 1 {
		t.Errorf("one cannot be recorded: %v, %v", rows, err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	recorded = nil
	if _, _, err := r.all(interrupted, []components.Pin{{Minor: "1.3", Kubernetes: "v1.3.0"}}); err == nil || recorded != nil {
		t.Errorf("a version that was interrupted is recorded: %v, %v", recorded, err)
	}
}

func TestStoriesAreCounted(t *testing.T) {
	const story = `{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA/x","Output":"hello\n"}
{"Action":"fail","Test":"TestA/x"}
{"Action":"fail","Test":"TestA"}
{"Action":"skip","Test":"TestB"}
{"Action":"pass","Test":"TestC/y"}
{"Action":"pass","Test":"TestC"}
{"Action":"fail"}
`
	var log strings.Builder
	have, err := count(strings.NewReader(story), &log)
	if err != nil || have.passed != 1 || !slices.Equal(have.failed, []string{"TestA", "TestB"}) || log.String() != "hello\n" {
		t.Errorf("%+v, %v; the log has %q", have, err, log.String())
	}
	for want, said := range map[string]tally{
		"**2 of 3 failed**": have,
		"4 passed":          {passed: 4, stories: 4},
		"**4 of 5 ran**":    {passed: 4, stories: 5},
		"**no test ran**":   {},
		"**failed**":        {passed: 4, err: os.ErrDeadlineExceeded},
	} {
		if said.String() != want || said.good() != strings.HasSuffix(want, " passed") {
			t.Errorf("%+v is %q, good: %v; want %q", said, said, said.good(), want)
		}
	}
}

func TestStoriesOfASuiteAreCountedInItsSources(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"services/a_test.go":     "package services\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) {}\nfunc TestA(t *testing.T) {}\nfunc testB(t *testing.T) {}\n",
		"services/slow_test.go":  "//go:build slow\n\npackage services\n\nfunc TestSlow(t *testing.T) {}\n",
		"services/other_test.go": "//go:build privileged\n\npackage services\n\nfunc TestElsewhere(t *testing.T) {}\n",
		"traffic/deep/c_test.go": "package deep\n\nfunc TestC(t *testing.T) {}\n",
	} {
		file = filepath.Join(root, "test", file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []suite{{name: "services"}, {name: "services", with: []string{"traffic"}}, {name: "nosuch"}} {
		number, err := s.stories(root)
		if want := map[int]int{0: 2, 1: 3}[len(s.with)]; s.name == "services" && (err != nil || number != want) || s.name == "nosuch" && err == nil {
			t.Errorf("%+v has %d stories, %v", s, number, err)
		}
	}
}

// What is no event, as a linker's message, must not hold up the program that prints it.
func TestAProgramThatPrintsNoEventsHasFailed(t *testing.T) {
	if said := follow(exec.Command("sh", "-c", "yes | head -c 1000000"), new(strings.Builder)); said.good() || said.err == nil {
		t.Errorf("%+v", said)
	}
}

// passed is a cell whose stories all passed.
var passed = regexp.MustCompile(`^[1-9][0-9]* passed$`)

// Of each version that is tested in full the README has a row, and of the patch that is
// pinned now. None shows a failure.
func TestTheReadmeIsOfThePinnedVersions(t *testing.T) {
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pins, err := components.Pins()
	if err != nil {
		t.Fatal(err)
	}
	if same, err := rewrite(string(readme), pins, nil); err != nil || same != string(readme) {
		t.Errorf("the table is not as make test-versions writes it: %v", err)
	}
	_, rest, _ := strings.Cut(string(readme), above)
	text, _, _ := strings.Cut(rest, below)
	rows, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for title, said := range r.cells {
			if !passed.MatchString(said) {
				t.Errorf("%s of Kubernetes %s is %q: a version that the README names passes", title, r.patch, said)
			}
		}
	}
	for _, minor := range inFull(pins) {
		pin, err := components.Choose(pins, minor)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(rows, func(r row) bool { return "v"+r.patch == pin.Kubernetes && "v"+r.etcd == pin.Etcd }) {
			t.Errorf("Kubernetes %s with etcd %s has no row: make test-versions VERSIONS=%s", pin.Kubernetes, pin.Etcd, minor)
		}
	}
}
