// Package conformance reads what came of Kubernetes' own tests, and writes it down for
// docs/reference/conformance.md.
package conformance

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// What came of a test. Any other word of Ginkgo's ("timedout", "panicked") stands as it is.
const (
	Passed     = "passed"
	Failed     = "failed"
	Skipped    = "skipped"
	CannotPass = "cannot pass" // failed, as it has to
)

// Result is what came of one test.
type Result struct {
	Name    string // without its labels: "[sig-network] LoadBalancers should …"
	Outcome string
	Reason  string // why it was skipped, or failed: one line
}

// labels follow a name, or stand in it: [Slow], [Feature:LoadBalancer].
var labels = regexp.MustCompile(` \[[^\]]+\]`)

// Results reads the tests that were to run out of a JUnit report of Ginkgo's.
func Results(file string) ([]Result, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var report struct {
		Suites []struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Status  string `xml:"status,attr"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all []Result
	for _, s := range report.Suites {
		for _, c := range s.Cases {
			name, isTest := strings.CutPrefix(c.Name, "[It] ")
			r := Result{Name: labels.ReplaceAllString(name, ""), Outcome: c.Status}
			switch {
			case !isTest:
				continue
			case c.Skipped != nil && strings.HasPrefix(c.Skipped.Message, "skipped - "):
				r.Outcome, r.Reason = Skipped, firstLine(strings.TrimPrefix(c.Skipped.Message, "skipped - "))
			case c.Skipped != nil || c.Status == "skipped":
				continue // not among those asked for
			case c.Failure != nil:
				r.Outcome, r.Reason = Failed, firstLine(c.Failure.Message)
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Expect puts the reason in place of the failure of each test that cannot pass. One of
// them that passes has failed: its reason is wrong.
func Expect(all []Result, cannotPass map[string]string) []Result {
	for i, r := range all {
		reason, expected := cannotPass[r.Name]
		switch {
		case !expected:
		case r.Outcome == Passed:
			all[i].Outcome, all[i].Reason = Failed, "it passed, and was said to be impossible: "+reason
		case r.Outcome == Failed:
			all[i].Outcome, all[i].Reason = CannotPass, reason
		}
	}
	return all
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ReplaceAll(line, "|", "\\|")
}

// Run is what the tests ran against: which Kubernetes, which commit of Plinth, and when.
type Run struct{ Kubernetes, Commit, Day string }

// Page is docs/reference/conformance.md.
func Page(of Run, all []Result) string {
	var b strings.Builder
	count := map[string]int{}
	for _, r := range all {
		count[r.Outcome]++
	}
	fmt.Fprintf(&b, intro, of.Kubernetes, of.Commit, of.Day, len(all), count[Passed], count[Failed], count[CannotPass], count[Skipped])
	for _, r := range all {
		outcome := r.Outcome
		if r.Reason != "" {
			outcome += ": " + r.Reason
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(r.Name, "|", "\\|"), outcome)
	}
	return b.String()
}

const intro = `# Kubernetes' own tests

<!-- Written by make e2e-upstream. -->

The end-to-end tests of Kubernetes %s about Services of type LoadBalancer, against Plinth (` + "`%s`" + `, %s) on three machines with a real kubelet, containerd
and kube-proxy (nftables) behind a router (FRR). Of %d tests %d passed, %d failed, %d cannot pass and %d were skipped. ` + "`make e2e-upstream`" + ` runs
them and writes this page.

Two settings of that datacenter are there for the tests:

* **The router spreads flows by their addresses alone** (layer 3; on Linux ` + "`net.ipv4.fib_multipath_hash_policy=0`" + `). With ports in its hash (layer 4)
  the tests of session affinity cannot pass, whatever announces the VIP: two connections of one client reach two machines, and each
  machine's kube-proxy remembers the client for itself. [What to set](../guides/routers.md#client-affinity).
* **The inventory has IPv4 alone.** "should only target nodes with endpoints" asks for the health of a Service at each address of each Node, and
  kube-proxy answers in the families of the Service, whose one family is the cluster's first. With Nodes of both families that test fails,
  whatever announces the VIP. All else about both families is in Plinth's own stories.

| test | result |
|---|---|
`
