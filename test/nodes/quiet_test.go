//go:build slow

package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

// withNetworks are so many Nodes, of racks whose pods Plinth routes, that have a network.
func (c *cluster) withNetworks(count int) {
	c.t.Helper()
	c.CreateNodes(count)
	c.AwaitInitialised(time.Minute, count)
	for i := range count {
		c.says(apiserver.MachineName(i), "True", "AsPlanned")
	}
	for i := range count {
		c.until(apiserver.MachineName(i), "has a network", unavailable("False"))
	}
}

// TestTheLogIsQuietWhileNothingChanges counts what the controller manager writes as it is
// shipped, but for the period of the route controller, in ten rounds of that.
func TestTheLogIsQuietWhileNothingChanges(t *testing.T) {
	const count, period, rounds = 8, time.Second, 10
	c := newCluster(t, apiserver.Options{})
	c.edit(strings.Replace(apiserver.ManyMachines(count), "  racks:\n", "  podNetwork: {mode: direct, cidrs: [10.244.0.0/16, \"fd00:244::/48\"]}\n  racks:\n", 1))
	c.start("--route-reconciliation-period=" + period.String())
	c.withNetworks(count)
	c.Quiet(apiserver.ControllerName, 0)
	before := len(c.Log(apiserver.ControllerName))
	time.Sleep(rounds * period) // there is no end of silence to wait for
	if lines := c.logged(before); len(lines) > 2 {
		t.Errorf("%d Nodes with two pod CIDRs each were %d lines in %d rounds:\n%s", count, len(lines), rounds, strings.Join(lines, ""))
	}

	t.Log("a Node loses its network, and has it again: the route controller still looks")
	name := apiserver.MachineName(0)
	c.says(name, "False", "Incomplete")
	c.until(name, "has no network", unavailable("True"))
	c.says(name, "True", "AsPlanned")
	c.until(name, "has a network again", unavailable("False"))
	for _, line := range c.logged(before) {
		if strings.Contains(line, apiserver.MachineName(1)) {
			t.Errorf("a word of a Node of which nothing changed: %s", line)
		}
	}
}

// TestTheLogSaysOnceThatThereIsNoInventoryYet though Nodes, Services and volumes wait for it.
func TestTheLogSaysOnceThatThereIsNoInventoryYet(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	for i := range 3 {
		c.register(node{name: apiserver.MachineName(i), podCIDRs: []string{fmt.Sprintf("10.244.%d.0/24", i)}, notReady: i == 0})
	}
	c.Kubectl("create", "service", "loadbalancer", "web", "--tcp=80")
	c.start()
	c.AwaitStatus("ready", "false")
	time.Sleep(10 * time.Second) // what would be tried again and again
	waits, errs := 0, 0
	for _, line := range c.logged(0) {
		if strings.Contains(line, "no inventory is in force yet") {
			waits++
			if !strings.Contains(line, "plinth.dev/inventory") {
				t.Errorf("it does not say what it waits for: %s", line)
			}
		}
		if strings.HasPrefix(line, "E") {
			errs++
		}
	}
	if waits != 1 || errs > 1 {
		t.Errorf("%d lines say that it waits, and there are %d errors:\n%s", waits, errs, c.Log(apiserver.ControllerName))
	}
	c.edit(apiserver.ManyMachines(3))
	c.AwaitInitialised(20*time.Second, 3)
}
