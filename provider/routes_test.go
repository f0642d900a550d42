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
	"plinth.dev/plinth/lb"
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
		n.Status.Conditions = []v1.NodeCondition{{Type: lb.FabricReady, Status: status, Message: "routes 11/12, sessions 1/2"}}
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

func TestANetworkOutlastsSessionsAndNotRoutes(t *testing.T) {
	tests := []struct {
		name        string
		reason      string
		unavailable v1.ConditionStatus // what the Node bears already
		want        bool
	}{
		{"one of two routers is down", lb.FabricDegraded, v1.ConditionFalse, true},
		{"one of two routers is down, and the Node is new", lb.FabricDegraded, "", true},
		{"all routers are down", lb.FabricSessionsDown, v1.ConditionFalse, true},
		{"all routers are down, and the Node never had a network", lb.FabricSessionsDown, v1.ConditionTrue, false},
		{"all routers are down, and the Node is new", lb.FabricSessionsDown, "", false},
		{"a route is missing", "Incomplete", v1.ConditionFalse, false},
		{"an older agent says no more than No", "", v1.ConditionFalse, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := nodeWithFabric("w1", v1.ConditionFalse, "10.244.1.0/24")
			n.Status.Conditions[0].Reason = tt.reason
			if tt.unavailable != "" {
				n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: tt.unavailable})
			}
			r := routes{inventory: func() *inventory.Inventory { return &inventory.Inventory{} }, nodes: listerOf(t, n)}
			listed, err := r.ListRoutes(t.Context(), "kubernetes")
			if err != nil || len(listed) == 1 != tt.want {
				t.Errorf("%d routes, %v", len(listed), err)
			}
			if err := r.CreateRoute(t.Context(), "kubernetes", "", &cloudprovider.Route{TargetNode: "w1"}); (err == nil) != tt.want {
				t.Errorf("creating its route: %v", err)
			}
		})
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
		was, is           v1.ConditionStatus
		wasReason, reason string
		want              int
	}{
		"it became ready":    {"", v1.ConditionTrue, "", "", 2},
		"it broke":           {v1.ConditionTrue, v1.ConditionFalse, "", "", 2},
		"it said the same":   {v1.ConditionTrue, v1.ConditionTrue, "", "", 1},
		"it gave a reason":   {v1.ConditionFalse, v1.ConditionFalse, "SessionsDown", "Incomplete", 2},
		"it gave the same":   {v1.ConditionFalse, v1.ConditionFalse, "SessionsDown", "SessionsDown", 1},
		"it has yet to talk": {"", "", "", "", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			calls := 0
			h := fabricHandler{cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
				if calls++; was.(*v1.Node).Name != is.(*v1.Node).Name {
					t.Errorf("from %v to %v", was, is)
				}
			}}}
			said := func(status v1.ConditionStatus, reason string) *v1.Node {
				n := nodeWithFabric("w1", status)
				for i := range n.Status.Conditions {
					n.Status.Conditions[i].Reason = reason
				}
				return n
			}
			h.OnUpdate(said(c.was, c.wasReason), said(c.is, c.reason))
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
