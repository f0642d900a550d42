package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

const twoMachines = `
  region: dc1
  labels: {example.com/site: berlin}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  racks:
    - name: r01
      zone: dc1-a
      row: a
      subnets: [10.10.1.0/26]
      machines:
        - name: w1
          id: SN-1
          unit: 12
          type: r640-gold
          addresses: [10.10.1.11, "2001:db8:10:1::b"]
          taints: [{key: dedicated, value: search, effect: NoSchedule}]
        - {name: w2, addresses: [10.10.1.12]}
`

func TestNodeIsInitialisedFromTheInventory(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.register(node{name: "w1"})
	c.edit(apiserver.Document(twoMachines))
	c.until("w1", "is initialised", apiserver.Initialised)

	got := c.get("w1")
	if err := labelled(map[string]string{
		"topology.kubernetes.io/region":            "dc1",
		"failure-domain.beta.kubernetes.io/region": "dc1",
		"topology.kubernetes.io/zone":              "dc1-a",
		"failure-domain.beta.kubernetes.io/zone":   "dc1-a",
		"node.kubernetes.io/instance-type":         "r640-gold",
		"beta.kubernetes.io/instance-type":         "r640-gold",
		"plinth.dev/rack":                          "r01",
		"plinth.dev/row":                           "a",
		"plinth.dev/unit":                          "12",
		"example.com/site":                         "berlin",
	})(got); err != nil {
		t.Error(err)
	}
	if got.Spec.ProviderID != "plinth://SN-1" {
		t.Errorf("providerID %q", got.Spec.ProviderID)
	}
	want := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.10.1.11"}, {Type: v1.NodeInternalIP, Address: "2001:db8:10:1::b"}, {Type: v1.NodeHostName, Address: "w1"}}
	if !slices.Equal(got.Status.Addresses, want) {
		t.Errorf("addresses %v", got.Status.Addresses)
	}
	if len(got.Spec.PodCIDRs) != 2 || got.Spec.PodCIDR != got.Spec.PodCIDRs[0] {
		t.Errorf("pod CIDRs %q, %q", got.Spec.PodCIDR, got.Spec.PodCIDRs)
	}
	if !tainted(got, "dedicated=search:NoSchedule") {
		t.Errorf("taints %v", got.Spec.Taints)
	}
	c.AwaitStatus("ready", "true")
	c.AwaitStatus("generation", "1")
	c.AwaitStatus("machinesWithoutNode", "w2")
}

// The controller keeps a part of each Node, and the stock node controller may write the whole of what is kept.
func TestAnUpdateOfANodeLosesNothingThatTheControllerDoesNotKeep(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.register(node{name: "w1"})
	before := c.get("w1")
	kept := before.DeepCopy()
	kept.Status.Images, kept.ManagedFields = nil, nil
	kept.Spec.Taints = nil
	if _, err := c.Client.CoreV1().Nodes().Update(t.Context(), kept, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	after := c.get("w1")
	owns := func(n *v1.Node) (entries []string) {
		for _, e := range n.ManagedFields {
			if e.Manager == "kubelet" {
				entries = append(entries, string(e.Operation)+" "+e.Subresource)
			}
		}
		return entries
	}
	if len(after.Spec.Taints) == len(before.Spec.Taints) {
		t.Error("the update changed nothing")
	}
	if want := owns(before); len(after.Status.Images) != 1 || len(want) != 2 || !slices.Equal(owns(after), want) {
		t.Errorf("the Node has the images %v, and its kubelet owns by %q, want %q", after.Status.Images, owns(after), want)
	}
}

func TestInitialisationIsTwoWrites(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.edit(apiserver.ManyMachines(1))
	c.start()
	c.AwaitStatus("ready", "true")
	before := len(c.Writes())
	c.CreateNodes(1)
	c.AwaitInitialised(20*time.Second, 1)
	c.AwaitStatus("machinesWithoutNode", "")
	writes := slices.DeleteFunc(c.Quiet(apiserver.ControllerName, before), func(w apiserver.Write) bool {
		return !strings.HasPrefix(w.Name, apiserver.MachineName(0)) // the Node, and Events on it
	})
	if len(writes) != 2 {
		t.Errorf("written: %+v", writes)
	}
}
