package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

// rests is how long Nodes at rest are looked at: as long as the stock controllers
// take until they look at every address again, and a kubelet until it reports what
// has not changed.
const rests = 5 * time.Minute

// BenchmarkNodesAtRest has a thousand dual-stack Nodes, with pod CIDRs and routes
// that their agents acknowledged, and kubelets that report, be at rest for five
// minutes, and fails on any write of the controller manager's, Events included.
// Leases of its leader election are not counted; it takes part in none.
func BenchmarkNodesAtRest(b *testing.B) {
	network := "  podNetwork: {mode: fabric, cidrs: [10.128.0.0/9, \"fd00:244::/48\"], rackPrefix: {ipv4: 18, ipv6: 56}}\n  racks:\n"
	c := atRest(b, strings.Replace(apiserver.ManyMachines(machines), "  racks:\n", network, 1))
	for i := range machines {
		report(b, c, i, v1.NodeCondition{Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue, Reason: "Ready"})
	}
	c.Eventually(2*time.Minute, "every Node has its network", func(ctx context.Context) error { return networks(ctx, c) })
	c.Quiet(apiserver.ControllerName, 0)
	before := len(c.Writes())
	for b.Loop() {
		pause := time.NewTicker(rests / machines)
		for i := range machines {
			<-pause.C
			report(b, c, i, apiserver.Ready(true))
		}
		pause.Stop()
	}
	written := 0
	for _, w := range c.Writes()[before:] {
		if w.Agent == apiserver.ControllerName {
			written++
			b.Errorf("written at rest: %+v", w)
		}
	}
	b.ReportMetric(float64(written), "writes")
}

// report has a Node's kubelet, or its agent, tell a condition.
func report(b *testing.B, c *apiserver.Controller, machine int, condition v1.NodeCondition) {
	b.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []v1.NodeCondition{condition}}})
	if err != nil {
		b.Fatal(err)
	}
	name := apiserver.MachineName(machine)
	if _, err := c.Client.CoreV1().Nodes().Patch(b.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
}

// networks says whose network is not available yet.
func networks(ctx context.Context, c *apiserver.Controller) error {
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	without := 0
	for _, n := range list.Items {
		if !available(n) {
			without++
		}
	}
	if without > 0 {
		time.Sleep(time.Second) // a list of all Nodes is work
		return fmt.Errorf("%d have none, or no two pod CIDRs", without)
	}
	return nil
}

func available(n v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeNetworkUnavailable {
			return c.Status == v1.ConditionFalse && len(n.Spec.PodCIDRs) == 2
		}
	}
	return false
}
