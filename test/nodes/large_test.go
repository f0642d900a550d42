package nodes

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/apiserver"
)

// oneRack is an inventory with so many dual-stack machines in rack r01, and one in r02.
func oneRack(machines int, note string) string {
	var b strings.Builder
	b.WriteString("  podNetwork: {mode: fabric, cidrs: [100.64.0.0/10, \"fd00::/40\"], rackPrefix: {ipv4: 11, ipv6: 48}}\n" +
		"  safety: {maxRemoved: 100%}\n  labels: {note: " + note + "}\n" +
		"  racks:\n    - {name: r02, machines: [{name: other, addresses: [172.31.0.1]}]}\n    - name: r01\n      machines:\n")
	for i := range machines {
		fmt.Fprintf(&b, "        - {name: m%d, addresses: [172.16.%d.%d, \"2001:db8::%x\"]}\n", i, i/250, i%250+1, i+1)
	}
	return apiserver.Document(b.String())
}

// TestRackIsStoredUpToTheSizeThatTheAPIServerTakesAndRefusedBeyond has a rack just below
// the limit change in every line: the version before it is kept beside it.
func TestRackIsStoredUpToTheSizeThatTheAPIServerTakesAndRefusedBeyond(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	for i, note := range []string{"a", "b"} {
		c.edit(oneRack(largest, note))
		c.AwaitStatus("generation", fmt.Sprint(i+1))
		c.AwaitStatus("ready", "true")
	}
	stored := c.accepted()
	if size := bytesOf(stored["plinth-accepted-r01"]); size < 950_000 || size > 1<<20 {
		t.Errorf("the rack takes %d bytes: the test means one that just fits", size)
	}
	before := len(c.Writes())
	c.edit(oneRack(largest+1000, "c"))
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

func bytesOf(cm *v1.ConfigMap) (n int) {
	for _, v := range cm.Data {
		n += len(v)
	}
	for _, v := range cm.BinaryData {
		n += len(v)
	}
	return n
}
