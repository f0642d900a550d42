//go:build slow

package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// TestNodesAtRestAreNotWritten looks at a hundred dual-stack Nodes for as many
// rounds of the stock controllers as they make in an hour, then through restarts
// of the API server and of the controller manager.
func TestNodesAtRestAreNotWritten(t *testing.T) {
	const count = 100
	c := newCluster(t, apiserver.Options{Controllers: true})
	c.edit(apiserver.ManyMachines(count))
	flags := []string{"--node-status-update-frequency=1s", "--route-reconciliation-period=1s", "--min-resync-period=5s", "-v=2"}
	stop := c.start(flags...)
	c.AwaitStatus("ready", "true")
	c.CreateNodes(count)
	c.AwaitInitialised(time.Minute, count)
	c.AwaitStatus("machinesWithoutNode", "")
	was := c.versions()

	c.rounds(12)
	c.unchanged(was, "after twelve rounds")

	c.StopServer()
	c.StartServer()
	c.alive()
	c.rounds(3)
	c.unchanged(was, "after a restart of the API server")

	stop()
	c.start(flags...)
	c.alive()
	c.rounds(3)
	c.unchanged(was, "after a restart of the controller manager")
}

// touched is the Node whose label somebody changes, and Plinth sets right.
const touched = "m0000"

// alive waits until the controller manager has set right what somebody changed.
func (c *cluster) alive() {
	c.t.Helper()
	c.patch(touched, "", `{"metadata":{"labels":{"plinth.dev/row":"elsewhere"}}}`)
	c.until(touched, "is set right", labelled(map[string]string{"plinth.dev/row": "a"}))
}

// rounds waits until the stock node controller has looked so often at every Node.
func (c *cluster) rounds(n int) {
	c.t.Helper()
	count := func() int { return strings.Count(c.Log(apiserver.ControllerName), "nodes status took") }
	before := count()
	c.Eventually(time.Minute, fmt.Sprintf("%d rounds", n), func(context.Context) error {
		if now := count() - before; now < n {
			return fmt.Errorf("there were %d", now)
		}
		return nil
	})
}

// state is how far the test and Plinth have written.
type state struct {
	writes int
	nodes  map[string]*v1.Node
}

func (c *cluster) versions() state {
	c.t.Helper()
	c.Quiet(apiserver.ControllerName, 0)
	list, err := c.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	out := state{writes: len(c.Writes()), nodes: map[string]*v1.Node{}}
	for i := range list.Items {
		out.nodes[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// unchanged checks that Plinth wrote no Node, and no part of the inventory but its status,
// which a new process tells once, and the Node that was touched. A leader is counted once in ten
// seconds, besides, which a restore of etcd is told from.
func (c *cluster) unchanged(was state, when string) {
	c.t.Helper()
	for _, w := range c.Written(was.writes) {
		if !slices.Contains([]string{"plinth-inventory-status", "plinth-released", touched}, w.Name) {
			c.t.Errorf("%s: written: %+v", when, w)
		}
	}
	list, err := c.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if len(list.Items) != len(was.nodes) {
		c.t.Errorf("%s: %d nodes", when, len(list.Items))
	}
	for _, n := range list.Items {
		if err := apiserver.Initialised(&n); err != nil {
			c.t.Errorf("%s: node %s: %v", when, n.Name, err)
		}
		if before := was.nodes[n.Name]; n.UID != before.UID || !maps.Equal(n.Labels, before.Labels) {
			c.t.Errorf("%s: node %s was %s %v, is %s %v", when, n.Name, before.UID, before.Labels, n.UID, n.Labels)
		}
	}
}
