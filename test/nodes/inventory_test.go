package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

const threeMachines = `
  racks:
    - name: r01
      zone: %s
      machines:
        - {name: w1, addresses: [10.10.1.11]}
        - {name: w2, addresses: [10.10.1.12], state: %s}
        - {name: w3, addresses: [10.10.1.13]}
`

func zoned(zone, state string) string {
	return apiserver.Document(fmt.Sprintf(threeMachines, zone, state))
}

func TestNoEditButRetiredLetsANodeGo(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	stop := c.start()
	c.edit(zoned("a", "active"))
	for _, name := range []string{"w1", "w2", "w3", "stranger"} {
		c.register(node{name: name, notReady: true})
	}
	c.AwaitStatus("generation", "1")
	for _, name := range []string{"w1", "w2", "w3"} {
		c.until(name, "is initialised", apiserver.Initialised)
	}
	bad := map[string]string{
		"a tab":                  strings.Replace(zoned("a", "active"), "  racks", "\tracks", 1),
		"an unknown key":         strings.Replace(zoned("a", "active"), "zone:", "zonne:", 1),
		"half a file":            zoned("a", "active")[:150],
		"nothing at all":         "",
		"no machine":             apiserver.Document("  racks: [{name: r01, machines: []}]\n"),
		"two of three machines":  strings.Replace(strings.Replace(zoned("b", "active"), "{name: w2", "{name: x2, id: x2", 1), "{name: w3", "{name: x3, id: x3", 1),
		"all machines retired":   strings.ReplaceAll(zoned("b", "retired"), "13]}", "13], state: retired}"),
		"another inventory name": strings.Replace(zoned("b", "active"), "name: dc1", "name: dc2", 1),
		"an address used twice":  strings.Replace(zoned("b", "active"), "10.10.1.12", "10.10.1.11", 1),
	}
	for what, text := range bad {
		c.edit(text)
		c.refused(what)
		c.edit(zoned("a", "active"))
		c.AwaitStatus("ready", "true")
	}
	if err := c.Client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), apiserver.InventoryName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.refused(deleted)

	t.Log("one machine of three is no longer mentioned, which is allowed: it is held")
	c.edit(strings.Replace(zoned("a", "active"), "        - {name: w3, addresses: [10.10.1.13]}\n", "", 1))
	c.AwaitStatus("generation", "2")
	c.stays(5*time.Second, "w1", "w2", "w3", "stranger")

	t.Log("a controller manager that starts on a broken edit works on what was accepted")
	stop()
	c.edit("{")
	c.start()
	c.refused("broken at start")
	c.stays(4*time.Second, "w1", "w2", "w3", "stranger")

	t.Log("retired")
	c.edit(zoned("a", "retired"))
	c.Eventually(10*time.Second, "node w2 is gone", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Nodes().Get(ctx, "w2", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is still there")
	})
	c.stays(3*time.Second, "w1", "w3", "stranger")
	for _, w := range c.Written(0) {
		if w.Verb == "delete" && w.Resource == "nodes" && w.Name != "w2" {
			t.Errorf("node %s was deleted", w.Name)
		}
	}
}

const deleted = "the ConfigMap was deleted"

// refused waits until the edit was refused, and checks that nothing else changed.
func (c *cluster) refused(what string) {
	c.t.Helper()
	c.t.Log(what)
	c.AwaitStatus("ready", "false")
	status, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(c.t.Context(), "plinth-inventory-status", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	first, _, _ := strings.Cut(status.Data["problems"], "\n")
	if first == "" {
		c.t.Errorf("%s: the status says of no problem", what)
	}
	if what != deleted { // there is nothing left to put an Event on
		c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", first[:min(len(first), 200)])
	}
	for _, name := range []string{"w1", "w2", "w3"} {
		if err := labelled(map[string]string{"topology.kubernetes.io/zone": "a"})(c.get(name)); err != nil {
			c.t.Errorf("%s: node %s: %v", what, name, err)
		}
	}
}

// stays watches for a while that Nodes are not deleted, whom the lifecycle
// controller looks at every second.
func (c *cluster) stays(while time.Duration, names ...string) {
	c.t.Helper()
	deadline := time.Now().Add(while)
	for time.Now().Before(deadline) {
		for _, name := range names {
			c.get(name)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func TestMachineThatIsOffHasTheShutdownTaintUntilItIsBack(t *testing.T) {
	const shutdown = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(zoned("a", "off"))
	c.register(node{name: "w2", notReady: true})
	c.until("w2", "has the shutdown taint", func(n *v1.Node) error {
		if !tainted(n, shutdown) {
			return fmt.Errorf("its taints are %v", n.Spec.Taints)
		}
		return nil
	})
	c.edit(zoned("a", "active"))
	c.patch("w2", "status", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`)
	c.until("w2", "has lost the shutdown taint", func(n *v1.Node) error {
		if tainted(n, shutdown) {
			return errors.New("it is still there")
		}
		return nil
	})
}

func TestEditOfAZoneReachesBothLabelsOfEveryNodeAndStays(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(zoned("a", "active"))
	names := []string{"w1", "w2", "w3"}
	for _, name := range names {
		c.register(node{name: name})
		c.until(name, "is initialised", apiserver.Initialised)
	}
	c.edit(zoned("b", "active"))
	both := labelled(map[string]string{"topology.kubernetes.io/zone": "b", "failure-domain.beta.kubernetes.io/zone": "b"})
	for _, name := range names {
		c.until(name, "is in zone b", both)
	}
	before := len(c.Writes())
	t.Log("somebody changes the GA label of one; the stock controller, which believes the beta label, must agree with Plinth")
	c.patch("w1", "", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"c","example.com/mine":"kept"}}}`)
	c.until("w1", "is in zone b again", both)
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		for _, name := range names {
			if err := both(c.get(name)); err != nil {
				t.Fatalf("node %s: %v", name, err)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	if n := len(c.Written(before)); n > 3 {
		t.Errorf("%d writes to put one label right: %v", n, c.Written(before))
	}
	if c.get("w1").Labels["example.com/mine"] != "kept" {
		t.Error("a label of somebody else's is gone")
	}
}

func TestOnlyLabelsOfOursGoWhenTheInventoryDropsThem(t *testing.T) {
	const rack = "  labels: {example.com/site: berlin}\n  racks:\n    - {name: r01, row: a, machines: [{name: w1, addresses: [10.10.1.11], labels: {example.com/disk: ssd}}]}\n"
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(apiserver.Document(rack))
	c.register(node{name: "w1", labels: map[string]string{"example.com/owner": "carla"}})
	c.until("w1", "is initialised", apiserver.Initialised)
	c.until("w1", "is labelled", labelled(map[string]string{"example.com/site": "berlin", "example.com/disk": "ssd", "plinth.dev/row": "a"}))
	c.edit(apiserver.Document("  racks:\n    - {name: r02, machines: [{name: w1, addresses: [10.10.1.11]}]}\n"))
	c.until("w1", "has moved", labelled(map[string]string{
		"plinth.dev/rack": "r02", "topology.kubernetes.io/zone": "r02", "plinth.dev/row": "", "example.com/site": "", "example.com/disk": "",
		"example.com/owner": "carla", v1.LabelHostname: "w1",
	}))
}

func TestMaintenanceTaintsARackAndTakesAwayOnlyItsOwnTaint(t *testing.T) {
	rack := func(state string) string {
		return apiserver.Document("  safety: {maxDrained: 2}\n  racks:\n    - name: r01\n      state: " + state + `
      machines:
        - {name: w1, addresses: [10.10.1.11], taints: [{key: dedicated, value: db, effect: NoSchedule}]}
        - {name: w2, addresses: [10.10.1.12]}
`)
	}
	const maintenance, dedicated, theirs = "plinth.dev/maintenance:NoSchedule", "dedicated=db:NoSchedule", "theirs=yes:NoExecute"
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(rack("active"))
	for _, name := range []string{"w1", "w2"} {
		c.register(node{name: name})
		c.until(name, "is initialised", apiserver.Initialised)
		taints := append(c.get(name).Spec.Taints, v1.Taint{Key: "theirs", Value: "yes", Effect: v1.TaintEffectNoExecute})
		c.setTaints(name, taints)
	}
	c.edit(rack("maintenance"))
	for _, name := range []string{"w1", "w2"} {
		c.until(name, "is in maintenance", has(maintenance, theirs))
	}
	c.edit(rack("active"))
	for _, name := range []string{"w1", "w2"} {
		c.until(name, "is out of maintenance", hasNot(maintenance))
		if err := has(theirs)(c.get(name)); err != nil {
			t.Error(err)
		}
	}
	if err := has(dedicated)(c.get("w1")); err != nil {
		t.Error(err)
	}
}

func (c *cluster) setTaints(name string, taints []v1.Taint) {
	c.t.Helper()
	c.Eventually(10*time.Second, "taints of "+name+" are set", func(ctx context.Context) error {
		n := c.get(name)
		n.Spec.Taints = taints
		_, err := c.Client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func has(taints ...string) func(*v1.Node) error {
	return func(n *v1.Node) error {
		for _, t := range taints {
			if !tainted(n, t) {
				return fmt.Errorf("%s is not among %v", t, n.Spec.Taints)
			}
		}
		return nil
	}
}

func hasNot(taint string) func(*v1.Node) error {
	return func(n *v1.Node) error {
		if tainted(n, taint) {
			return fmt.Errorf("%s is among %v", taint, n.Spec.Taints)
		}
		return nil
	}
}

func TestRunningNodesAreAdoptedAsTheyAre(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	before := map[string]*v1.Node{}
	foreign := map[string]string{"node.kubernetes.io/instance-type": "k3s", "example.com/owner": "carla", "topology.kubernetes.io/zone": "old"}
	for i, name := range []string{"w1", "w2", "w3"} {
		before[name] = c.register(node{name: name, providerID: "k3s://" + name, labels: foreign, adopted: true,
			systemUUID: fmt.Sprintf("4C4C4544-0032-3010-8053-B7C04F58593%d", i), podCIDRs: []string{fmt.Sprintf("10.42.%d.0/24", i)}})
	}
	c.edit(apiserver.Document(`
  podNetwork: {mode: direct, cidrs: [10.42.0.0/16]}
  racks:
    - name: r01
      zone: a
      machines:
        - {name: w1, addresses: [10.10.1.11], aliases: ["k3s://w1"]}
        - {name: first, id: SN-2, addresses: [10.10.1.12], aliases: ["k3s://w2"]}
        - {name: second, id: SN-3, addresses: [10.10.1.13], match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f585932}}
`))
	for name, was := range before {
		c.until(name, "is in zone a", labelled(map[string]string{
			"topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/zone": "a", "plinth.dev/rack": "r01",
			"node.kubernetes.io/instance-type": "k3s", "example.com/owner": "carla", v1.LabelHostname: name,
		}))
		is := c.get(name)
		if is.UID != was.UID || is.Spec.ProviderID != was.Spec.ProviderID || is.Spec.PodCIDR != was.Spec.PodCIDR {
			t.Errorf("node %s was %s %s %s, is %s %s %s", name, was.UID, was.Spec.ProviderID, was.Spec.PodCIDR, is.UID, is.Spec.ProviderID, is.Spec.PodCIDR)
		}
	}
}

func TestNodeIPThatTheInventoryLacksIsReported(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(zoned("a", "active"))
	c.register(node{name: "w1", nodeIPs: "10.10.9.9"})
	c.event("Node", "w1", "NodeIPUnknown", "10.10.9.9")
	c.event("Node", "w1", "NodeIPUnknown", "10.10.1.11")
	c.register(node{name: "w2", nodeIPs: "10.10.1.12"})
	c.until("w2", "is initialised", apiserver.Initialised)
}

func TestBothAddressesOfADualStackKubeletAreThere(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(apiserver.Document(twoMachines))
	c.register(node{name: "w1", nodeIPs: "10.10.1.11,2001:db8:10:1::b"})
	c.until("w1", "is initialised", apiserver.Initialised)
	want := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.10.1.11"}, {Type: v1.NodeInternalIP, Address: "2001:db8:10:1::b"}, {Type: v1.NodeHostName, Address: "w1"}}
	if got := c.get("w1").Status.Addresses; !slices.Equal(got, want) {
		t.Errorf("addresses %v", got)
	}
}
