package gotest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const said = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":1.5}
{"Action":"run","Package":"a","Test":"TestBad"}
{"Action":"run","Package":"a","Test":"TestBad/part"}
{"Action":"output","Package":"a","Test":"TestBad/part","Output":"    a_test.go:12: 3 writes, want 2\n"}
{"Action":"fail","Package":"a","Test":"TestBad/part","Elapsed":0.1}
{"Action":"fail","Package":"a","Test":"TestBad","Elapsed":0.2}
{"Action":"run","Package":"a","Test":"TestIdle"}
{"Action":"skip","Package":"a","Test":"TestIdle","Elapsed":0}
{"Action":"run","Package":"a","Test":"TestHangs"}
{"Action":"output","Package":"a","Test":"TestHangs","Output":"panic: test timed out after 1s\n"}
`

// A subtest that passed logs at its place, too.
const parts = `{"Action":"run","Package":"a","Test":"TestTable"}
{"Action":"run","Package":"a","Test":"TestTable/good"}
{"Action":"output","Package":"a","Test":"TestTable/good","Output":"    a_test.go:30: named after 3 s\n"}
{"Action":"pass","Package":"a","Test":"TestTable/good","Elapsed":0.1}
{"Action":"run","Package":"a","Test":"TestTable/bad"}
{"Action":"run","Package":"a","Test":"TestTable/bad/deep"}
{"Action":"output","Package":"a","Test":"TestTable/bad/deep","Output":"    a_test.go:40: 3 lost\n"}
{"Action":"fail","Package":"a","Test":"TestTable/bad/deep","Elapsed":0.1}
{"Action":"fail","Package":"a","Test":"TestTable/bad","Elapsed":0.1}
{"Action":"fail","Package":"a","Test":"TestTable/other","Elapsed":0.1}
{"Action":"fail","Package":"a","Test":"TestTable","Elapsed":0.2}
`

func TestOfATableTheSubtestsThatFailedAreTold(t *testing.T) {
	got := read(t, parts)["TestTable"]
	if want := []string{"bad/deep", "other"}; !slices.Equal(got.Parts, want) {
		t.Errorf("failed: %v, want %v", got.Parts, want)
	}
	if want := "a_test.go:40: 3 lost"; got.Reason() != want {
		t.Errorf("reason %q, want %q", got.Reason(), want)
	}
}

func read(t *testing.T, events string) map[string]Result {
	t.Helper()
	results, err := Read(strings.NewReader(events), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Result{}
	for _, r := range results {
		if _, twice := byName[r.Test]; twice {
			t.Errorf("%s is told twice", r.Test)
		}
		byName[r.Test] = r
	}
	return byName
}

func TestEachTestIsToldOnceWithWhatItsPartsSaid(t *testing.T) {
	got := read(t, said)
	for name, want := range map[string]Outcome{"TestGood": Passed, "TestBad": Failed, "TestIdle": Skipped, "TestHangs": Broken} {
		if got[name].Outcome != want {
			t.Errorf("%s: %q, want %q", name, got[name].Outcome, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d results: %v", len(got), got)
	}
	if r := got["TestGood"]; r.Took != 1500*time.Millisecond {
		t.Errorf("TestGood took %v", r.Took)
	}
	if r := got["TestBad"].Reason(); r != "a_test.go:12: 3 writes, want 2" {
		t.Errorf("TestBad failed for %q", r)
	}
	if r := got["TestHangs"].Reason(); r != "panic: test timed out after 1s" {
		t.Errorf("TestHangs failed for %q", r)
	}
}

func TestAPackageThatFailsBesideItsTestsIsTold(t *testing.T) {
	got := read(t, `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestGood"}
{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"a","Output":"goleak: Errors on successful test run\n"}
{"Action":"fail","Package":"a","Elapsed":1}
`)
	if r := got[""]; r.Outcome != Failed || r.Reason() != "goleak: Errors on successful test run" {
		t.Errorf("%+v", r)
	}
	if got := read(t, strings.Replace(said, `{"Action":"run","Package":"a","Test":"TestHangs"}`, `{"Action":"fail","Package":"a","Elapsed":1}`, 1)); got[""].Outcome != "" {
		t.Errorf("a package is told whose tests failed: %+v", got[""])
	}
}

// TestSubtestsThatRunBesideEachOtherTakeTime of their test, though go test says that it took none. How long one takes that
// waits itself for others is not told by the clock.
func TestSubtestsThatRunBesideEachOtherTakeTime(t *testing.T) {
	got := read(t, `{"Time":"2026-01-01T12:00:00Z","Action":"run","Package":"a","Test":"TestOfParts"}
{"Time":"2026-01-01T12:00:00Z","Action":"run","Package":"a","Test":"TestOfParts/one"}
{"Time":"2026-01-01T12:00:00Z","Action":"pause","Package":"a","Test":"TestOfParts/one"}
{"Time":"2026-01-01T12:00:09Z","Action":"pass","Package":"a","Test":"TestOfParts/one","Elapsed":9}
{"Time":"2026-01-01T12:00:09Z","Action":"pass","Package":"a","Test":"TestOfParts","Elapsed":0}
{"Time":"2026-01-01T12:00:09Z","Action":"run","Package":"a","Test":"TestThatWaits"}
{"Time":"2026-01-01T12:00:09Z","Action":"pause","Package":"a","Test":"TestThatWaits"}
{"Time":"2026-01-01T12:00:30Z","Action":"cont","Package":"a","Test":"TestThatWaits"}
{"Time":"2026-01-01T12:00:32Z","Action":"pass","Package":"a","Test":"TestThatWaits","Elapsed":2}
`)
	for name, want := range map[string]time.Duration{"TestOfParts": 9 * time.Second, "TestThatWaits": 2 * time.Second} {
		if got[name].Took != want {
			t.Errorf("%s took %v, want %v", name, got[name].Took, want)
		}
	}
}
