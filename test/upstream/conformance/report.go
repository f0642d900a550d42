// Package conformance reads what came of Kubernetes' own tests, and writes it down for
// docs/reference/conformance.md.
package conformance

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Result is what came of one test.
type Result struct {
	Name    string
	Outcome string // passed, failed, or skipped
	Reason  string // why it was skipped, or failed: one line
}

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
			r := Result{Name: name, Outcome: c.Status}
			switch {
			case !isTest:
				continue
			case c.Skipped != nil && strings.HasPrefix(c.Skipped.Message, "skipped - "):
				r.Outcome, r.Reason = "skipped", firstLine(strings.TrimPrefix(c.Skipped.Message, "skipped - "))
			case c.Skipped != nil || c.Status == "skipped":
				continue // not among those asked for
			case c.Failure != nil:
				r.Outcome, r.Reason = "failed", firstLine(c.Failure.Message)
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ReplaceAll(line, "|", "\\|")
}

// Page is docs/reference/conformance.md.
func Page(version string, all []Result) string {
	var b strings.Builder
	count := map[string]int{}
	for _, r := range all {
		count[r.Outcome]++
	}
	fmt.Fprintf(&b, `# Kubernetes' own tests

<!-- Written by make e2e-upstream. -->

Plinth against the end-to-end tests of Kubernetes %s that are about Services of type LoadBalancer, on three machines with a real
kubelet, containerd and kube-proxy (nftables) behind a router (FRR): %d passed, %d failed, %d skipped. `+"`make e2e-upstream`"+` runs them and writes
this page.

The router spreads flows by their addresses alone (layer 3; on Linux `+"`net.ipv4.fib_multipath_hash_policy=0`"+`). With ports in its hash (layer 4) the tests of
session affinity cannot pass, whatever announces the VIP: two connections of one client then reach two machines, and each machine's kube-proxy remembers a
client for itself. [What to set](../guides/routers.md#client-affinity).

| test | result |
|---|---|
`, version, count["passed"], count["failed"], count["skipped"])
	for _, r := range all {
		outcome := r.Outcome
		if r.Reason != "" {
			outcome += ": " + r.Reason
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(r.Name, "|", "\\|"), outcome)
	}
	return b.String()
}
