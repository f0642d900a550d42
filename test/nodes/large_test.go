//go:build slow

package nodes

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/test/apiserver"
)

// oneRack is an inventory with so many dual-stack machines in rack r01, and one in r02. Their
// addresses begin with 172 and the number.
func oneRack(machines, number int) string {
	var b strings.Builder
	b.WriteString("  podNetwork: {mode: fabric, cidrs: [100.64.0.0/10, \"fd00::/40\"], rackPrefix: {ipv4: 11, ipv6: 48}}\n" +
		"  safety: {maxRemoved: 100%}\n" +
		"  racks:\n    - {name: r02, machines: [{name: other, addresses: [172.31.0.1]}]}\n    - name: r01\n      machines:\n")
	for i := range machines {
		fmt.Fprintf(&b, "        - {name: m%d, addresses: [172.%d.%d.%d, \"2001:db8::%x\"]}\n", i, number, i/250, i%250+1, i+1)
	}
	return apiserver.Document(b.String())
}

// TestRackIsStoredUpToTheSizeThatTheAPIServerTakesAndRefusedBeyond has a rack just below
// the limit change in every line.
func TestRackIsStoredUpToTheSizeThatTheAPIServerTakesAndRefusedBeyond(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	for i := range 2 {
		c.edit(oneRack(largest, 16+i))
		c.AwaitStatus("generation", fmt.Sprint(i+1))
		c.AwaitStatus("ready", "true")
	}
	c.Quiet(apiserver.ControllerName, 0)
	stored := c.accepted()
	if size := len(stored["plinth-accepted.r01.2"].Data["inventory.yaml"]); size < 950_000 || size > 1<<20 {
		t.Errorf("the rack takes %d bytes: the test means one that just fits", size)
	}
	before := len(c.Writes())
	c.edit(oneRack(largest+1000, 18))
	c.AwaitStatus("ready", "false")
	c.AwaitStatus("generation", "2")
	c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", "P1003")
	c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", "spec.racks[r01]")
	for _, w := range c.Written(before) {
		if strings.HasPrefix(w.Name, "plinth-accepted") {
			t.Errorf("of an edit that is refused it wrote %v", w)
		}
	}
}

// largest is how many machines of oneRack fit into a rack.
const largest = 6300
