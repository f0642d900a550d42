package nodes

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

const reported = `
  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}
  racks:
    - name: r01
      machines:
        - {name: w1, addresses: [10.10.1.11], podCIDRs: [10.244.1.0/24]}
        - {name: w2, addresses: [10.10.1.12], podCIDRs: [10.244.2.0/24]}
        - {name: w3, addresses: [10.10.1.13], podCIDRs: [10.244.3.0/24]}
        - {name: w4, addresses: [10.10.1.14], podCIDRs: [10.244.4.0/24]}
        - {name: spare, addresses: [10.10.1.15], podCIDRs: [10.244.5.0/24]}
        - {name: later, addresses: [10.10.1.16], podCIDRs: [10.244.6.0/24], state: planned}
`

// TestWhatDoesNotFitTheInventoryIsReported has one Node for each thing that can be
// wrong with Nodes and machines, and asks Events, metrics and the status for it.
func TestWhatDoesNotFitTheInventoryIsReported(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	scrape := c.startWithMetrics()
	c.edit(apiserver.Document(reported))
	c.register(node{name: "stranger", podCIDRs: []string{"192.168.9.0/25"}})
	c.register(node{name: "later"})
	c.register(node{name: "w1", adopted: true, podCIDRs: []string{"192.168.9.0/24"}})
	c.register(node{name: "w4", adopted: true, podCIDRs: []string{"10.244.2.0/24"}})
	c.register(node{name: "w2"})
	c.register(node{name: "w3"})
	c.register(node{name: "double", providerID: "plinth://w3", adopted: true})

	c.event("Node", "stranger", "NoMachine", "")
	c.event("Node", "later", "Unexpected", "planned")
	c.event("Node", "w1", "PodCIDRDiffer", "[192.168.9.0/24], the inventory gives machine w1 [10.244.1.0/24]")
	c.event("Node", "w2", "PodCIDRInUse", "node w4 has pod CIDRs that overlap [10.244.2.0/24]")
	c.event("Node", "w1", "PodCIDRInUse", "node stranger has pod CIDRs that overlap this one's [192.168.9.0/24]")
	c.event("Node", "stranger", "PodCIDRInUse", "node w1 has pod CIDRs that overlap this one's [192.168.9.0/25]")
	c.event("Node", "double", "Ambiguous", "claimed by the nodes double, w3")
	c.event("ConfigMap", "plinth-inventory-status", "MachineWithoutNode", "spare")
	c.AwaitStatus("nodesWithoutMachine", "stranger")
	c.AwaitStatus("machinesWithoutNode", "spare")
	for metric, want := range map[string]string{"plinth_nodes_without_machine": "1", "plinth_machines_without_node": "1", "plinth_inventory_ready": "1"} {
		c.Eventually(20*time.Second, metric+" is "+want, func(ctx context.Context) error { return scrape(ctx, metric, want) })
	}
	if got := c.get("w1").Spec.PodCIDR; got != "192.168.9.0/24" {
		t.Errorf("node w1 has the pod CIDR %s now", got)
	}
	if got := c.get("w2").Spec.PodCIDR; got != "" {
		t.Errorf("node w2 got the pod CIDR %s of another", got)
	}
}

// startWithMetrics runs a controller manager that serves its metrics, and returns
// what compares one of them with what it should be.
func (c *cluster) startWithMetrics() func(ctx context.Context, metric, want string) error {
	c.t.Helper()
	c.start("--bind-address="+c.Host, fmt.Sprintf("--secure-port=%d", apiserver.MetricsPort), "--cert-dir="+c.t.TempDir(),
		"--authentication-kubeconfig="+c.Limited, "--authorization-kubeconfig="+c.Limited)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // a certificate of its own making
	return func(ctx context.Context, metric, want string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/metrics", c.Host, apiserver.MetricsPort), nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+c.Config.BearerToken)
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			if got, ok := strings.CutPrefix(lines.Text(), metric+" "); ok {
				if got != want {
					return fmt.Errorf("it is %s", got)
				}
				return nil
			}
		}
		return fmt.Errorf("%s, and there is no such line", answer.Status)
	}
}
