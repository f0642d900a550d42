package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// As Ginkgo writes it: what the expression does not name is skipped without a reason.
const junit = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] [sig-network] Services should be b" status="passed"></testcase>
<testcase name="[It] [sig-network] LoadBalancers [Feature:LoadBalancer] should be a [Slow] [sig-network, Slow]" status="failed"><failure message="no answer | at all&#xA;more" type="failed">x</failure></testcase>
<testcase name="[It] [sig-storage] other" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] [sig-network] LoadBalancers should be c" status="skipped"><skipped message="skipped - Only supported for providers [gce]"></skipped></testcase>
</testsuite></testsuites>`

func TestTheReportHasEveryTestThatWasAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "junit.xml")
	if err := os.WriteFile(file, []byte(junit), 0o600); err != nil {
		t.Fatal(err)
	}
	have, err := Results(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{
		{"[sig-network] LoadBalancers should be a", "failed", `no answer \| at all`},
		{"[sig-network] LoadBalancers should be c", "skipped", "Only supported for providers [gce]"},
		{"[sig-network] Services should be b", "passed", ""},
	}
	if !slices.Equal(have, want) {
		t.Errorf("results %q, want %q", have, want)
	}
	text := Page(Run{"v1.2.3", "0123abcd", "2026-11-28"}, have)
	for _, line := range []string{
		"Kubernetes v1.2.3", "Of 3 tests 1 passed, 1 failed, 0 cannot pass and 1 were skipped",
		`| [sig-network] LoadBalancers should be a | failed: no answer \| at all |`,
		"| [sig-network] Services should be b | passed |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the page has no %q:\n%s", line, text)
		}
	}
}

func TestATestThatCannotPassHasItsReasonAndNoOtherOutcomeIsHidden(t *testing.T) {
	because := map[string]string{"a": "no router can", "b": "no router can"}
	have := Expect([]Result{{"a", Failed, "no answer"}, {"b", Passed, ""}, {"c", Failed, "no answer"}, {"d", Passed, ""}}, because)
	want := []Result{
		{"a", CannotPass, "no router can"}, {"b", Failed, "it passed, and was said to be impossible: no router can"},
		{"c", Failed, "no answer"}, {"d", Passed, ""},
	}
	if !slices.Equal(have, want) {
		t.Errorf("results %q, want %q", have, want)
	}
}
