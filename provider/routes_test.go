package provider

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
)

func listerOf(t *testing.T, nodes ...*v1.Node) corelisters.NodeLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range nodes {
		if err := indexer.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return corelisters.NewNodeLister(indexer)
}

func nodeWithFabric(name string, status v1.ConditionStatus, podCIDRs ...string) *v1.Node {
	n := nodeNamed(name, "")
	n.Spec.PodCIDRs = podCIDRs
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.10.1.11"}}
	if status != "" {
		n.Status.Conditions = []v1.NodeCondition{{Type: FabricReady, Status: status, Message: "routes 11/12, sessions 1/2"}}
	}
	return n
}

func TestRoutesAreThoseThatAgentsAcknowledged(t *testing.T) {
	r := routes{
		inventory: func() *inventory.Inventory { return &inventory.Inventory{} },
		nodes: listerOf(t,
			nodeWithFabric("ready", v1.ConditionTrue, "10.244.1.0/24", "fd00:244:1::/64"),
			nodeWithFabric("broken", v1.ConditionFalse, "10.244.2.0/24"),
			nodeWithFabric("silent", "", "10.244.3.0/24")),
	}
	listed, err := r.ListRoutes(t.Context(), "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, route := range listed {
		got = append(got, route.DestinationCIDR)
		if route.TargetNode != "ready" || !route.EnableNodeAddresses || len(route.TargetNodeAddresses) != 1 {
			t.Errorf("route %+v", route)
		}
	}
	if want := []string{"10.244.1.0/24", "fd00:244:1::/64"}; !slices.Equal(got, want) {
		t.Errorf("routes to %v, not %v", got, want)
	}
	for node, want := range map[string]string{"ready": "", "broken": "routes 11/12, sessions 1/2", "silent": "has not said", "gone": "not found"} {
		err := r.CreateRoute(t.Context(), "kubernetes", "", &cloudprovider.Route{TargetNode: types.NodeName(node)})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", node, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, not %q", node, err, want)
		}
	}
}

func TestRoutesAreNotOfferedWhereACNIMakesThem(t *testing.T) {
	for name, c := range map[string]struct {
		podNetwork string
		want       string
	}{
		"no pod network":      {"", ""},
		"fabric, both family": {"  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, \"fd00:244::/48\"]}\n", "10.244.0.0/16,fd00:244::/48"},
		"direct":              {"  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n", "10.244.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(machinesOfEveryState, "  racks:\n", c.podNetwork+"  racks:\n", 1)
			cloud := cloudWith(t, text, nil)
			if _, ok := cloud.Routes(); ok != (c.want != "") {
				t.Errorf("offered: %t", ok)
			}
			if got := cloud.clusterCIDRs(""); got != c.want {
				t.Errorf("cluster CIDRs %q, not %q", got, c.want)
			}
			if got := cloud.clusterCIDRs("10.0.0.0/8"); c.want != "" && got != "10.0.0.0/8" {
				t.Errorf("--cluster-cidr was overruled by %q", got)
			}
		})
	}
	if _, ok := cloudWith(t, "", nil).Routes(); ok {
		t.Error("offered without an inventory")
	}
}

func TestAnAgentsWordLooksLikeAResyncToTheRouteController(t *testing.T) {
	cases := map[string]struct {
		was, is v1.ConditionStatus
		want    int
	}{
		"it became ready":  {"", v1.ConditionTrue, 2},
		"it broke":         {v1.ConditionTrue, v1.ConditionFalse, 2},
		"it said the same": {v1.ConditionTrue, v1.ConditionTrue, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			calls := 0
			h := fabricHandler{cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) { calls++ }}}
			h.OnUpdate(nodeWithFabric("w1", c.was), nodeWithFabric("w1", c.is))
			if calls != c.want {
				t.Errorf("%d updates, not %d", calls, c.want)
			}
		})
	}
}

func TestClusterCIDRsAreOnePerFamily(t *testing.T) {
	for list, ok := range map[string]bool{
		"": true, "10.0.0.0/8": true, "10.0.0.0/8, fd00::/48": true,
		"10.0.0.0/8,172.16.0.0/12": false, "10.0.0.0/8,fd00::/48,fd01::/48": false, "10.0.0.0": false,
	} {
		if _, err := parseCIDRs(list); (err == nil) != ok {
			t.Errorf("%q: %v", list, err)
		}
	}
}
