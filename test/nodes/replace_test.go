package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

const (
	board1 = "4c4c4544-0032-3010-8053-b7c04f585931"
	board2 = "4c4c4544-0032-3010-8053-b7c04f585932"
)

// place is an inventory of two machines, of which w1 has the fields that follow its name.
func place(w1 string) string {
	return apiserver.Document(fmt.Sprintf(`
  podNetwork: {mode: direct, cidrs: [10.42.0.0/16]}
  racks:
    - name: r01
      machines:
        - {name: w1, addresses: [10.10.1.11], unit: 7, %s}
        - {name: w2, addresses: [10.10.1.12]}
`, w1))
}

func machine(id, board string) string {
	return fmt.Sprintf("id: %s, match: {systemUUID: %s}", id, board)
}

func (c *cluster) deleteNode(name string) {
	c.t.Helper()
	if err := c.Client.CoreV1().Nodes().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// reports sets what the kubelet of a Node says of its machine.
func (c *cluster) reports(name, board string) {
	c.t.Helper()
	c.patch(name, "status", fmt.Sprintf(`{"status":{"nodeInfo":{"systemUUID":%q}}}`, board))
}

// isMachine checks that a Node is a machine in the place of w1.
func isMachine(providerID string, was *v1.Node) func(*v1.Node) error {
	return func(n *v1.Node) error {
		return errors.Join(
			apiserver.Initialised(n),
			labelled(map[string]string{"plinth.dev/rack": "r01", "plinth.dev/unit": "7"})(n),
			differs("provider ID", n.Spec.ProviderID, providerID),
			differs("pod CIDR", n.Spec.PodCIDR, was.Spec.PodCIDR))
	}
}

func differs(what, is, want string) error {
	if is != want {
		return fmt.Errorf("its %s is %q, not %q", what, is, want)
	}
	return nil
}

func TestANodeIsMadeAnewForTheMachineInThePlaceOfAnother(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(place(machine("SN-1", board1)))
	c.register(node{name: "w1", systemUUID: board1})
	c.until("w1", "is initialised", apiserver.Initialised)
	was := c.get("w1")

	t.Log("the inventory is edited, and the old machine goes; nobody deletes its Node")
	c.edit(place(machine("SN-2", board2)))
	c.event("ConfigMap", apiserver.InventoryName, "InventoryWarning", "kubectl delete node w1")
	c.ready("w1", false)
	c.event("Node", "w1", "MachineReplaced", "the provider ID plinth://SN-1, and machine w1 is plinth://SN-2")
	c.event("Node", "w1", "MachineReplaced", "kubectl delete node w1")
	c.stays(3*time.Second, "w1")

	t.Log("the kubelet of the new machine takes the old Node as its own")
	c.reports("w1", board2)
	c.ready("w1", true)
	if n := c.get("w1"); n.UID != was.UID || n.Spec.ProviderID != was.Spec.ProviderID {
		t.Errorf("the Node is %s %s, was %s %s", n.UID, n.Spec.ProviderID, was.UID, was.Spec.ProviderID)
	}
	c.AwaitStatus("nodesWithoutMachine", "w1")

	c.deleteNode("w1")
	c.register(node{name: "w1", systemUUID: board2})
	c.until("w1", "is the new machine in the old place", isMachine("plinth://SN-2", was))
	c.AwaitStatus("nodesWithoutMachine", "")
}

func TestANodeThatIsDeletedBeforeTheEditWaitsForIt(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(place(machine("SN-1", board1)))
	c.register(node{name: "w1", systemUUID: board1})
	c.until("w1", "is initialised", apiserver.Initialised)
	was := c.get("w1")

	c.deleteNode("w1")
	c.register(node{name: "w1", systemUUID: board2})
	c.event("Node", "w1", "NoMachine", "machine w1 has systemUUID "+board1+", the node reports "+board2)
	c.event("Node", "w1", "NoMachine", "match: {systemUUID: "+board2+"}")
	if n := c.get("w1"); n.Spec.ProviderID != "" || apiserver.Initialised(n) == nil {
		t.Errorf("a Node of another board was initialised as %s", n.Spec.ProviderID)
	}
	c.edit(place(machine("SN-2", board2)))
	c.until("w1", "is the new machine in the old place", isMachine("plinth://SN-2", was))
}

func TestANodeWhoseBoardWasSwappedSaysSoUntilTheInventoryDoes(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	scrape := c.startWithMetrics()
	c.edit(place(machine("SN-1", board1)))
	c.register(node{name: "w1", systemUUID: board1})
	c.until("w1", "is initialised", apiserver.Initialised)
	was := c.get("w1")

	c.reports("w1", board2)
	c.event("Node", "w1", "SystemUUIDDiffers", "reports systemUUID "+board2+", and the inventory has "+board1)
	c.event("Node", "w1", "SystemUUIDDiffers", "match: {systemUUID: "+board2+"}")
	c.event("Node", "w1", "SystemUUIDDiffers", "kubectl delete node w1")
	c.edit(place(machine("SN-1", board2)))
	c.AwaitStatus("ready", "true")
	c.Eventually(10*time.Second, "no Node is without a machine", func(ctx context.Context) error {
		return scrape(ctx, "plinth_nodes_without_machine", "0")
	})
	if n := c.get("w1"); n.UID != was.UID || n.Spec.ProviderID != "plinth://SN-1" {
		t.Errorf("a new board has made the Node %s %s of %s %s", n.UID, n.Spec.ProviderID, was.UID, was.Spec.ProviderID)
	}
}

func TestAnEditThatGivesAllMachinesOtherIDsIsRefused(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	before := place("type: m")
	c.edit(before)
	for _, name := range []string{"w1", "w2"} {
		c.register(node{name: name})
		c.until(name, "is initialised", apiserver.Initialised)
	}
	c.edit(strings.NewReplacer("name: w1", "name: w1, id: SN-1", "name: w2", "name: w2, id: SN-2").Replace(before))
	c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", "gives another id to 2 of 2 machines at once")
	c.AwaitStatus("ready", "false")
}

func TestAMachineUnderANewNameTakesItsPlaceAlong(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	before := place("id: SN-1")
	c.edit(before)
	c.register(node{name: "w1"})
	c.until("w1", "is initialised", apiserver.Initialised)
	was := c.get("w1")

	t.Log("it joins under its new name while the Node of the old name is there")
	c.edit(strings.Replace(before, "name: w1", "name: w9", 1))
	c.register(node{name: "w9"})
	c.event("Node", "w9", "Ambiguous", "claimed by the nodes w1, w9")
	c.event("Node", "w9", "Ambiguous", "kubectl delete node w1")
	if err := apiserver.Initialised(c.get("w9")); err == nil {
		t.Error("two Nodes are one machine")
	}
	c.deleteNode("w1")
	c.until("w9", "is the machine in its place", isMachine("plinth://SN-1", was))
}

func TestAnotherMachineUnderAnotherNameTakesThePlace(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(place("id: SN-1"))
	c.register(node{name: "w1"})
	c.until("w1", "is initialised", apiserver.Initialised)
	was := c.get("w1")

	t.Log("the old one is retired, and its Node goes once it is not ready")
	c.edit(place("id: SN-1, state: retired"))
	c.AwaitStatus("generation", "2")
	c.ready("w1", false)
	c.Eventually(20*time.Second, "node w1 is gone", func(ctx context.Context) error {
		if _, err := c.Client.CoreV1().Nodes().Get(ctx, "w1", metav1.GetOptions{}); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	c.edit(strings.Replace(place("id: SN-2, podCIDRs: ["+was.Spec.PodCIDR+"]"), "name: w1", "name: w9", 1))
	c.register(node{name: "w9"})
	c.until("w9", "is the new machine in the old place", isMachine("plinth://SN-2", was))
}

func TestAPodCIDRIsGivenOnceTheNodeThatHadItIsGone(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(place("podCIDRs: [10.42.7.0/24]"))
	c.register(node{name: "before", adopted: true, podCIDRs: []string{"10.42.7.0/24"}})
	c.register(node{name: "w1"})
	c.event("Node", "w1", "PodCIDRInUse", "node before has pod CIDRs that overlap [10.42.7.0/24]")
	c.event("Node", "w1", "PodCIDRInUse", "kubectl delete node before")
	c.until("w1", "is initialised", apiserver.Initialised)
	c.deleteNode("before")
	c.until("w1", "has the pod CIDR", func(n *v1.Node) error { return differs("pod CIDR", n.Spec.PodCIDR, "10.42.7.0/24") })
}
