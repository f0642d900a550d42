package nodes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

// TestWhoeverAsksTheOldWayIsAnswered runs a program that links the provider with the stock node controllers and has no
// InstancesV2: a Node gets its ID, addresses, type and zone, is shut down and goes, and a stranger is left alone.
func TestWhoeverAsksTheOldWayIsAnswered(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "linked")
	if err := components.GoBuild(t.Context(), filepath.Join(root, "test"), "-o", program, "./linked"); err != nil {
		t.Fatal(err)
	}
	const spec = `
  region: north
  racks:
    - name: r01
      zone: dc1-a
      subnets: [10.10.1.0/26]
      machines:
        - {name: w1, id: SN-1, type: r640-gold, addresses: [10.10.1.11], externalAddresses: [192.0.2.11]%s}
        - {name: w2, addresses: [10.10.1.12]%s}
        - {name: w3, addresses: [10.10.1.13]}
        - {name: w4, addresses: [10.10.1.14]}
`
	c.edit(apiserver.Document(fmt.Sprintf(spec, "", "")))
	c.Spawn(program, "--without-instances-v2", "--kubeconfig="+c.Limited, "--secure-port=0", "--leader-elect=false", "--node-monitor-period=1s",
		"--controllers=cloud-node-controller,cloud-node-lifecycle-controller")
	for _, name := range []string{"w1", "w2"} {
		c.register(node{name: name})
		c.until(name, "is initialised", apiserver.Initialised)
	}
	if err := labelled(map[string]string{
		"topology.kubernetes.io/region": "north", "topology.kubernetes.io/zone": "dc1-a", "node.kubernetes.io/instance-type": "r640-gold",
	})(c.get("w1")); err != nil {
		t.Error(err)
	}
	n := c.get("w1")
	want := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.10.1.11"}, {Type: v1.NodeExternalIP, Address: "192.0.2.11"}, {Type: v1.NodeHostName, Address: "w1"}}
	if n.Spec.ProviderID != "plinth://SN-1" || !slices.Equal(n.Status.Addresses, want) {
		t.Errorf("w1 has the ID %s and the addresses %v", n.Spec.ProviderID, n.Status.Addresses)
	}
	c.register(node{name: "stranger", providerID: "aws:///i-1", adopted: true, notReady: true})
	c.ready("w1", false)
	c.ready("w2", false)
	c.edit(apiserver.Document(fmt.Sprintf(spec, `, state: "off", reason: summer`, ", state: retired")))
	c.until("w1", "is off", func(n *v1.Node) error {
		if !tainted(n, shutDown) {
			return fmt.Errorf("its taints are %v", n.Spec.Taints)
		}
		return nil
	})
	c.Eventually(20*time.Second, "the Node of a retired machine is gone", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Nodes().Get(ctx, "w2", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	if n := c.get("stranger"); tainted(n, shutDown) {
		t.Errorf("a stranger has the taints %v", n.Spec.Taints)
	}
}
