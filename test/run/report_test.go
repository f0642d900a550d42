package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/gotest"
	"plinth.dev/plinth/test/still"
)

func one(name string, came gotest.Outcome, took time.Duration, said ...string) outcome {
	return outcome{Result: gotest.Result{Package: "plinth.dev/plinth/lb/ipam", Test: name, Outcome: came, Took: took, Output: said}, part: "unit", log: "bin/tests/unit/lb-ipam.log", again: "go test -count=1 ./lb/ipam -run '^" + name + "$'"}
}

func TestAReportSaysWhatFailedWhyAndHowToSeeItAgain(t *testing.T) {
	r := run{took: 14 * time.Minute, cpus: 2, parts: []taken{{part{name: "unit"}, 2 * time.Minute}}, outcomes: []outcome{
		one("TestGood", gotest.Passed, time.Second),
		one("TestBad", gotest.Failed, 2*time.Second, "=== RUN   TestBad", "    a_test.go:12: 3 writes, want 2"),
		one("TestIdle", gotest.Skipped, 0),
	}}
	var b strings.Builder
	r.report(&b)
	for _, want := range []string{"2 of 3 failed in 14 min 0 s", "FAIL lb/ipam TestBad  2.0 s  a_test.go:12: 3 writes, want 2", "again: go test -count=1 ./lb/ipam -run '^TestBad$'", "bin/tests/unit/lb-ipam.log", "FAIL lb/ipam TestIdle  skipped"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if !strings.HasSuffix(b.String(), "\n1 passed, 2 failed\n") {
		t.Errorf("it ends otherwise:\n%s", b.String())
	}
}

func TestAReportNamesTheSubtestThatFailed(t *testing.T) {
	bad := one("TestBad", gotest.Failed, 2*time.Second)
	bad.Parts = []string{"one", "two", "three"}
	if first, want := bad.report()[0], "FAIL lb/ipam TestBad/one and 2 more of its subtests  2.0 s"; !strings.HasPrefix(first, want) {
		t.Errorf("%q, want %q", first, want)
	}
}

func TestAReportHasAtMostTwentyLines(t *testing.T) {
	r := run{took: time.Hour, parts: []taken{{part{name: "unit", usual: 1}, time.Hour}}, usual: map[string]time.Duration{"lb/ipam TestSlow": 10 * time.Second}}
	r.outcomes = append(r.outcomes, one("TestSlow", gotest.Passed, time.Minute))
	for i := range 40 {
		r.outcomes = append(r.outcomes, one(fmt.Sprint("TestBad", i), gotest.Failed, time.Second, "    a_test.go:1: no"))
	}
	var b strings.Builder
	r.report(&b)
	if n := strings.Count(b.String(), "\n"); n > lines {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
	for _, want := range []string{"more, in bin/tests/failed.txt", "TestSlow 60 s (10)", "unit took 60 min 0 s, which is 60.0 times", "1 passed, 40 failed"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestTimesOfARunAreReadAsUsualByTheNext(t *testing.T) {
	folder := t.TempDir()
	r := run{outcomes: []outcome{one("TestSlow", gotest.Passed, 12*time.Second)}}
	if err := r.all(folder); err != nil {
		t.Fatal(err)
	}
	if got := usualTimes(readFile(t, folder+"/times.tsv"))["lb/ipam TestSlow"]; got != 12*time.Second {
		t.Errorf("%v", got)
	}
}

func TestPartsAreNamed(t *testing.T) {
	parts, unknown := named("gate,traffic nosuch")
	if len(parts) != len(gate)+1 || len(unknown) != 1 || unknown[0] != "nosuch" {
		t.Errorf("%d parts, unknown: %v", len(parts), unknown)
	}
}

func TestAgainIsACommandThatAPersonCanType(t *testing.T) {
	p := program{suite: suite{module: "test", tags: "slow", env: []string{"A=1"}}, pkg: "plinth.dev/plinth/test/nodes"}
	if got, want := (executor{}).again(p, "TestX"), "A=1 go test -C test -count=1 -tags slow ./nodes -run '^TestX$'"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPartsThatNeedNotBeAloneRunSideBySide(t *testing.T) {
	var names []string
	for _, s := range stages(append(append([]part{}, gate...), rest...)) {
		names = append(names, fmt.Sprintf("%s: %d", s.name(), s.places(2)))
	}
	want := "lint, unit, kernel, routers, cluster, lab: 4; bfd: 1; traffic: 1; waits: 2; labs: 1; kine: 2; chaos: 2; samples: 4"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestPiecesOfAPackageHaveEachTestOnceAndTakeAboutAsLong(t *testing.T) {
	usual := map[string]time.Duration{"test/nodes TestLong": 9 * piece / 10}
	p := program{pkg: "plinth.dev/plinth/test/nodes", tests: []string{"TestLong", "TestNew"}}
	for i := range 15 {
		name := fmt.Sprint("Test", i)
		p.tests = append(p.tests, name)
		usual["test/nodes "+name] = piece / 10
	}
	pieces := p.cut(true, usual)
	if len(pieces) != 3 {
		t.Fatalf("%d pieces", len(pieces))
	}
	times := map[string]int{}
	for i, one := range pieces {
		if took := one.usual(usual); took < 7*piece/10 || took > 91*piece/100 {
			t.Errorf("%s takes %v: %v", one.piece, took, one.tests)
		}
		if want := fmt.Sprintf("%d of 3", i+1); one.piece != want || one.pkg != p.pkg {
			t.Errorf("piece %d is %q of %s", i, one.piece, one.pkg)
		}
		for _, test := range one.tests {
			times[test]++
		}
	}
	for _, test := range p.tests {
		if times[test] != 1 {
			t.Errorf("%s is in %d pieces", test, times[test])
		}
	}
	if whole := p.cut(false, usual); len(whole) != 1 || whole[0].piece != "" {
		t.Errorf("%d pieces of a package that is not to be cut", len(whole))
	}
}

func TestAPackageOfBenchmarksHasNoTests(t *testing.T) {
	for text, want := range map[string]bool{
		"package x\n\nfunc TestMain(m *testing.M) {}\n\nfunc BenchmarkX(b *testing.B) {}\n": false,
		"package x\n\nfunc TestMain(m *testing.M) {}\n\nfunc TestX(t *testing.T) {}\n":      true,
		"package x\n\nfunc FuzzX(f *testing.F) {}\n":                                        true,
		"package x\n\nfunc ExampleX() {}\n":                                                 true,
	} {
		file := t.TempDir() + "/x_test.go"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := hasTests(file); got != want {
			t.Errorf("%v of\n%s", got, text)
		}
	}
}

func TestWhatFailedWhileProgramsWaitedIsToldApart(t *testing.T) {
	waited := []still.Wait{{Who: "bgpd (process 7)", Took: 2400 * time.Millisecond}}
	starved := func(o outcome) outcome { o.starved = waited; return o }
	bad := func(name string) outcome {
		return one(name, gotest.Failed, time.Second, "    a_test.go:1: 3 lost")
	}
	r := run{
		outcomes: []outcome{one("TestGoodThen", gotest.Passed, time.Second), starved(bad("TestTwice")), bad("TestFault")},
		before:   []outcome{starved(bad("TestGoodThen")), starved(bad("TestTwice")), starved(bad("TestFault"))},
	}
	if failed, not := r.failed(), r.notJudged(); len(failed) != 1 || failed[0].Test != "TestFault" || len(not) != 1 || not[0].Test != "TestTwice" {
		t.Errorf("failed: %v, not judged: %v", failed, not)
	}
	var b strings.Builder
	r.report(&b)
	for _, want := range []string{
		"run once more, since programs waited for a processor: TestGoodThen (bgpd (process 7) for 2.4 s), TestTwice",
		"not judged, since they waited again: TestTwice (bgpd (process 7) for 2.4 s)", "FAIL lb/ipam TestFault",
		"of these failed at the same place both times, as a fault does: TestTwice (a_test.go:1)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if !strings.HasSuffix(b.String(), "\n1 passed, 1 failed, 1 not judged\n") {
		t.Errorf("it ends otherwise:\n%s", b.String())
	}
	r.before[1] = starved(one("TestTwice", gotest.Failed, time.Second, "    a_test.go:2: 5 lost"))
	b.Reset()
	if r.report(&b); strings.Contains(b.String(), "same place") {
		t.Errorf("it failed elsewhere before:\n%s", b.String())
	}
}
