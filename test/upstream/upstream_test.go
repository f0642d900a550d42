package upstream

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/real"
	"plinth.dev/plinth/test/upstream/conformance"
)

var (
	// All of the LoadBalancer tests, and those of Services that make one.
	focus  = flag.String("focus", `\[sig-network\] LoadBalancers|\[sig-network\] Services.*(LoadBalancer|session affinity|externalTrafficPolicy|healthCheckNodePort)`, "tests to run, a regular expression")
	skip   = flag.String("skip", "", "tests to leave out of those, a regular expression")
	record = flag.Bool("record", false, "write docs/reference/conformance.md")
	keep   = flag.Bool("keep", false, "leave the lab running")
)

const labName = "upstream"

// cannotPass are tests that no announcement of VIPs by BGP passes, each with the reason.
// One that passes all the same is an error, so that this list stays true.
var cannotPass = map[string]string{
	"[sig-network] LoadBalancers should be able to switch session affinity for LoadBalancer service with Local traffic policy": "the router " +
		"would have to hash layer 3 while the Service has session affinity, and layer 4 as soon as it has none; with layer 3 all requests of " +
		"the client stay at one machine, where `Local` has one pod",
}

func TestKubernetesOwnTestsOfLoadBalancers(t *testing.T) {
	ctx := context.Background()
	commit := commitOf(t)
	// What an earlier run that was killed has left.
	if err := lab.Down(ctx, labName); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if *keep {
			return
		}
		if err := lab.Down(ctx, labName); err != nil {
			t.Error(err)
		}
	})
	say := func(format string, args ...any) { t.Logf(format, args...) }
	programs, err := components.FindUpstream(ctx, say)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	archive := filepath.Join(out, "agnhost.tar")
	if err := writeAgnhost(ctx, programs["agnhost"], archive); err != nil {
		t.Fatal(err)
	}
	g, err := real.Start(ctx, real.Options{Name: labName, Install: "helm", ProxyMode: "nftables", RouterOS: lab.FRR, Images: []string{archive}, IPv4Only: true})
	if err != nil {
		t.Fatal(err)
	}
	// Affinity wants a router that sends all connections of a client the same way.
	if err := netns.Sysctl(g.Lab.Namespace("gateway"), "net/ipv4/fib_multipath_hash_policy=0"); err != nil {
		t.Fatal(err)
	}
	if err := g.Install(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.Lab.WaitPods(ctx, 2*time.Minute, "kube-system", "k8s-app=kube-dns"); err != nil {
		t.Fatal(err)
	}
	judge(t, conformance.Expect(runUpstream(t, g.Lab, programs["e2e.test"], out), cannotPass), commit)
}

// commitOf returns the commit that the page is to name; none where no page is written.
func commitOf(t *testing.T) string {
	t.Helper()
	if !*record {
		return ""
	}
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	commit, err := components.Commit(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

// runUpstream runs the tests from where the client is, and returns their report.
func runUpstream(t *testing.T, l *lab.Lab, program, out string) []conformance.Result {
	t.Helper()
	junit := filepath.Join(out, "junit.xml")
	logs, err := os.Create(filepath.Join(os.TempDir(), "plinth-upstream.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	kubeconfig, err := l.InsideKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--kubeconfig="+kubeconfig, "--provider=local", "--kubectl-path="+l.Program("kubectl"),
		"--ginkgo.focus="+*focus, "--ginkgo.skip="+*skip, "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.timeout=2h", "--ginkgo.junit-report="+junit,
		"--disable-log-dump", "--report-dir="+out, "--system-pods-startup-timeout=1m")
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := netns.Start(l.Namespace("client"), cmd); err != nil {
		t.Fatal(err)
	}
	ended := cmd.Wait() // judged by the report
	all, err := conformance.Results(junit)
	if err != nil {
		t.Fatalf("%v; the tests ended with %v: %s", err, ended, logs.Name())
	}
	t.Logf("what the tests said: %s", logs.Name())
	return all
}

func judge(t *testing.T, all []conformance.Result, commit string) {
	t.Helper()
	passed := 0
	for _, r := range all {
		switch r.Outcome {
		case conformance.Passed:
			passed++
		case conformance.Skipped, conformance.CannotPass:
			t.Logf("%s: %s: %s", r.Outcome, r.Name, r.Reason)
		default:
			t.Errorf("%s: %s: %s", r.Outcome, r.Name, r.Reason)
		}
	}
	t.Logf("%d passed of %d", passed, len(all))
	if passed == 0 {
		t.Error("no test passed: the expression fits none, or nothing ran")
	}
	if !*record {
		return
	}
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := components.StillAt(t.Context(), root, commit); err != nil {
		t.Fatal(err)
	}
	version, err := components.KubernetesVersion()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "docs", "reference", "conformance.md"), []byte(conformance.Page(conformance.Run{Kubernetes: version, Commit: commit, Day: time.Now().Format(time.DateOnly)}, all)), 0o644); err != nil {
		t.Fatal(fmt.Errorf("writing the page: %w", err))
	}
}
