package nodes

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/apiserver"
)

const (
	boardOne = "4c4c4544-0032-3010-8053-b7c04f585931"
	boardTwo = "4c4c4544-0032-3010-8053-b7c04f585932"
)

// matched is an inventory of two machines with boards, a pod network, a pool, and what else is said of each.
func matched(w1, w2 string) string {
	return apiserver.Document(fmt.Sprintf(`
  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}
  pools: [{name: public, addresses: [192.0.2.0/28]}]
  racks:
    - name: r01
      machines:
        - {addresses: [10.10.1.11], %s}
        - {addresses: [10.10.1.12], %s}
`, w1, w2))
}

func board(name, uuid string) string {
	return "name: " + name + ", match: {systemUUID: " + uuid + "}"
}

// tells runs the command and checks what it says.
func (c *cluster) tells(program string, code int, words []string, args ...string) (out string) {
	c.t.Helper()
	got, out := c.ask(program, args...)
	if got != code {
		c.t.Errorf("plinth %s ends with %d, want %d:\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			c.t.Errorf("plinth %s does not say %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

// TestTheNodeOfAMachineThatIsRenamedStaysWhatItIs: it is written to no more than by any other edit, and follows what is
// said under the new name. Numbers of boards that are swapped leave it what it is, and are told.
func TestTheNodeOfAMachineThatIsRenamedStaysWhatItIs(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.start()
	first := matched(board("w1", boardOne), board("w2", boardTwo))
	c.edit(first)
	c.register(node{name: "w1", systemUUID: boardOne})
	c.register(node{name: "w2", systemUUID: boardTwo})
	for _, name := range []string{"w1", "w2"} {
		c.until(name, "is initialised", apiserver.Initialised)
	}
	was := c.get("w1")

	renamed := matched(board("w9", boardOne)+", unit: 7", board("w2", boardTwo))
	file := func(text string) string {
		return filepath.Join(c.files(map[string]string{"dc1.yaml": text}), "dc1.yaml")
	}
	c.tells(program, 1, []string{"machine w1 of rack r01 is called w9 now: the same board and addresses. Its Node, providerID and pod CIDRs stay"}, "diff", "cluster", file(renamed))
	c.tells(program, 0, []string{"P1014", "valid: inventory dc1"}, "validate", "--cluster", file(renamed))
	c.edit(renamed)
	c.AwaitStatus("generation", "2")
	c.until("w1", "has the unit of its machine", labelled(map[string]string{"plinth.dev/unit": "7"}))
	c.quiet(3*time.Second, "plinth-accepted")
	if now := c.get("w1"); now.Spec.ProviderID != was.Spec.ProviderID || now.Spec.PodCIDR != was.Spec.PodCIDR || now.UID != was.UID {
		t.Errorf("the Node was %s with %s, and is %s with %s", was.Spec.ProviderID, was.Spec.PodCIDR, now.Spec.ProviderID, now.Spec.PodCIDR)
	}
	c.AwaitStatus("nodesWithoutMachine", "")
	c.AwaitStatus("machinesWithoutNode", "")

	// Provider IDs of Plinth's say which machines the Nodes are, whatever numbers their boards have.
	swapped := matched(board("w9", boardTwo), board("w2", boardOne))
	c.tells(program, 0, []string{"valid: inventory dc1"}, "validate", "--cluster", file(swapped))
	c.edit(swapped)
	c.AwaitStatus("generation", "3")
	c.event("Node", "w1", "SystemUUIDDiffers", "reports systemUUID "+boardOne)

	c.edit(first)
	c.AwaitStatus("generation", "4")
	c.until("w1", "is as before", func(n *v1.Node) error { return differs("providerID", n.Spec.ProviderID, was.Spec.ProviderID) })
}

// TestAnEditThatPodsWouldLoseIsRefusedUntilItIsAllowed: podNetwork that goes, and a pool over the addresses of pods that
// another program routes.
func TestAnEditThatPodsWouldLoseIsRefusedUntilItIsAllowed(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.start()
	first := matched("name: w1", "name: w2")
	c.edit(first)
	for _, name := range []string{"w1", "w2"} {
		c.register(node{name: name})
		c.until(name, "has a pod CIDR", func(n *v1.Node) error {
			if n.Spec.PodCIDR == "" {
				return fmt.Errorf("it has none")
			}
			return nil
		})
	}
	without := strings.Replace(first, "  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n", "", 1)
	out := c.tells(program, 1, []string{"pods of rack r01 do not reach those of rack r01 any more, of 2 pairs of machines: podNetwork is gone", "P1016"},
		"diff", "cluster", filepath.Join(c.files(map[string]string{"dc1.yaml": without}), "dc1.yaml"))
	c.edit(without)
	c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", "P1016")
	c.AwaitStatus("generation", "1")
	digest := regexp.MustCompile(`plinth allow ([0-9a-f]{16})`).FindStringSubmatch(out)
	if digest == nil {
		t.Fatalf("it does not say what lets the edit pass:\n%s", out)
	}
	c.tells(program, 0, nil, "allow", digest[1])
	c.AwaitStatus("generation", "2")

	over := strings.Replace(without, "192.0.2.0/28]", "192.0.2.0/28, 10.244.0.0/26]", 1)
	c.edit(over)
	c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", "P1017")
	c.AwaitStatus("generation", "2")
	c.tells(program, 2, []string{"P1017", "pool public takes 10.244.0.0/24 of the pods of node w1"}, "validate", "--cluster", filepath.Join(c.files(map[string]string{"dc1.yaml": over}), "dc1.yaml"))
	c.edit(without)
	c.AwaitStatus("ready", "true")
}
