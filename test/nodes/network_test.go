//go:build slow

package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// twoRacks has a machine in each of two subnets; MODE is the pod network's.
const twoRacks = `
  podNetwork: {mode: MODE, cidrs: [10.244.0.0/16]}
  racks:
    - {name: r01, subnets: [10.10.1.0/26], machines: [{name: w1, addresses: [10.10.1.11]}]}
    - {name: r02, subnets: [10.10.2.0/26], machines: [{name: w2, addresses: [10.10.2.11]}]}
`

// says is what an agent says in the condition of its Node.
func (c *cluster) says(node, status, reason string) {
	c.t.Helper()
	c.patch(node, "status", `{"status":{"conditions":[{"type":"plinth.dev/FabricReady","status":"`+status+`","reason":"`+reason+`","message":"as an agent says"}]}}`)
}

func unavailable(want v1.ConditionStatus) func(*v1.Node) error {
	return func(n *v1.Node) error {
		for _, cond := range n.Status.Conditions {
			if cond.Type == v1.NodeNetworkUnavailable && cond.Status == want {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", n.Status.Conditions)
	}
}

// routeControllers runs a test with the route controller in both of its modes.
func routeControllers(t *testing.T, mode string, story func(*cluster)) {
	for _, gate := range []string{"false", "true"} {
		t.Run(mode+", watch-based="+gate, func(t *testing.T) {
			c := newCluster(t, apiserver.Options{})
			c.start("--route-reconciliation-period=1s", "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation="+gate)
			c.edit(apiserver.Document(strings.Replace(twoRacks, "MODE", mode, 1)))
			story(c)
		})
	}
}

func TestNetworkIsAvailableWhenTheAgentSaysSo(t *testing.T) {
	routeControllers(t, "fabric", func(c *cluster) {
		c.register(node{name: "w1"})
		c.until("w1", "has no network yet", unavailable(v1.ConditionTrue))
		c.says("w1", "False", "SessionsDown")
		c.event("Node", "w1", "FailedToCreateRoute", "as an agent says")
		c.says("w1", "True", "AsPlanned")
		c.until("w1", "has a network", unavailable(v1.ConditionFalse))
		c.says("w1", "False", "SessionsDown")
		c.register(node{name: "w2"})
		c.until("w2", "has no network yet", unavailable(v1.ConditionTrue))
		c.says("w2", "False", "Degraded")
		c.until("w2", "has a network, with one router of two", unavailable(v1.ConditionFalse))
		if err := unavailable(v1.ConditionFalse)(c.get("w1")); err != nil {
			c.t.Errorf("it lost its network with its sessions: %v", err)
		}
		c.says("w1", "False", "Incomplete")
		c.until("w1", "has no network again", unavailable(v1.ConditionTrue))
		c.says("w2", "False", "CutOff")
		c.until("w2", "has no network again", unavailable(v1.ConditionTrue))
	})
}

// TestNetworkNeedsNoRouterWhereNoneCarriesPods: a new cluster whose router is off, or not
// configured yet.
func TestNetworkNeedsNoRouterWhereNoneCarriesPods(t *testing.T) {
	for _, mode := range []string{"direct", "overlay"} {
		routeControllers(t, mode, func(c *cluster) {
			for _, name := range []string{"w1", "w2"} {
				c.register(node{name: name})
				c.until(name, "has no network yet", unavailable(v1.ConditionTrue))
				c.says(name, "False", "SessionsDown")
				c.until(name, "has a network", unavailable(v1.ConditionFalse))
			}
			c.noEvent(5*time.Second, "FailedToCreateRoute", "as an agent says")
			c.says("w1", "False", "Incomplete")
			c.until("w1", "has no network without its routes", unavailable(v1.ConditionTrue))
		})
	}
}

// noEvent watches that no Event of a reason with a text comes.
func (c *cluster) noEvent(for_ time.Duration, reason, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), for_)
	defer cancel()
	// From version 0 the watch begins with those that are there.
	w, err := c.Client.CoreV1().Events("").Watch(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason, ResourceVersion: "0"})
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Stop()
	for {
		select {
		case got, open := <-w.ResultChan():
			if e, ok := got.Object.(*v1.Event); open && ok && strings.Contains(e.Message, text) {
				c.t.Fatalf("Event of %s: %s", e.InvolvedObject.Name, e.Message)
			} else if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
