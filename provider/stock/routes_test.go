package stock

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
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
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.PodCIDRs = podCIDRs
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.10.1.11"}}
	if status != "" {
		n.Status.Conditions = []v1.NodeCondition{{Type: lb.FabricReady, Status: status, Message: "routes 11/12, sessions 1/2"}}
	}
	return n
}

// inForce has an inventory in force; without a text an empty one.
func inForce(t *testing.T, text string) *source.InForce {
	t.Helper()
	inv := &inventory.Inventory{}
	if text != "" {
		var problems inventory.Problems
		if inv, problems = document.Load(document.Document{Source: "dc1.yaml", Data: []byte(text)}); problems.Err() != nil {
			t.Fatal(problems.Err())
		}
	}
	f := &source.InForce{}
	f.Set(inv)
	return f
}

func TestRoutesAreThoseThatAgentsAcknowledged(t *testing.T) {
	r := Routes{
		InForce: inForce(t, ""),
		Nodes: listerOf(t,
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

// podNetworks are inventories by what carries pods of w1 in them.
var podNetworks = map[string]string{
	"routers": `
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
  racks:
    - {name: r01, subnets: [10.10.1.0/24], machines: [{name: w1, addresses: [10.10.1.11]}, {name: w2, addresses: [10.10.1.12]}]}
    - {name: r02, subnets: [10.10.2.0/24], machines: [{name: w3, addresses: [10.10.2.11]}]}
`,
	"its own subnet, in fabric": `
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
  racks:
    - {name: r01, subnets: [10.10.1.0/24], machines: [{name: w1, addresses: [10.10.1.11]}, {name: w2, addresses: [10.10.1.12]}]}
    - {name: r02, subnets: [10.10.2.0/24], machines: [{name: w3, addresses: [10.10.2.11], state: planned}]}
`,
	"its own subnet": `
  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}
  racks:
    - {name: r01, subnets: [10.10.1.0/24], machines: [{name: w1, addresses: [10.10.1.11]}, {name: w2, addresses: [10.10.1.12]}]}
`,
	"the tunnel": `
  podNetwork: {mode: overlay, cidrs: [10.244.0.0/16]}
  racks:
    - {name: r01, subnets: [10.10.1.0/24], machines: [{name: w1, addresses: [10.10.1.11]}]}
    - {name: r02, subnets: [10.10.2.0/24], machines: [{name: w3, addresses: [10.10.2.11]}]}
`,
}

func TestANetworkIsThereWhileWhatCarriesPodsIs(t *testing.T) {
	all := slices.Sorted(maps.Keys(podNetworks))
	routersOnly := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "routers" })
	tests := []struct {
		name        string
		status      v1.ConditionStatus
		reason      string
		unavailable v1.ConditionStatus // what the Node bears already
		want        []string           // where it has a network
	}{
		{"all is as planned", v1.ConditionTrue, "AsPlanned", "", all},
		{"one of two routers is down", v1.ConditionFalse, lb.FabricDegraded, v1.ConditionFalse, all},
		{"one of two routers is down, and the Node is new", v1.ConditionFalse, lb.FabricDegraded, "", all},
		{"all routers are down", v1.ConditionFalse, lb.FabricSessionsDown, v1.ConditionFalse, all},
		{"all routers are down, and the Node never had a network", v1.ConditionFalse, lb.FabricSessionsDown, v1.ConditionTrue, routersOnly},
		{"all routers are down, and the Node is new", v1.ConditionFalse, lb.FabricSessionsDown, "", routersOnly},
		{"no router keeps its routes", v1.ConditionFalse, lb.FabricCutOff, v1.ConditionFalse, routersOnly},
		{"a route is missing", v1.ConditionFalse, "Incomplete", v1.ConditionFalse, nil},
		{"an older agent says no more than No", v1.ConditionFalse, "", v1.ConditionFalse, nil},
		{"its agent has not said anything", "", "", v1.ConditionFalse, nil},
	}
	for _, tt := range tests {
		for carrier, text := range podNetworks {
			t.Run(tt.name+", pods are carried by "+carrier, func(t *testing.T) {
				n := nodeWithFabric("w1", tt.status, "10.244.1.0/24")
				for i := range n.Status.Conditions {
					n.Status.Conditions[i].Reason = tt.reason
				}
				if tt.unavailable != "" {
					n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: tt.unavailable})
				}
				head := "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  routers: [{name: tor, address: 10.10.1.1, asn: 65101, multihop: 2}]"
				r := Routes{InForce: inForce(t, head+text), Nodes: listerOf(t, n)}
				want := slices.Contains(tt.want, carrier)
				listed, err := r.ListRoutes(t.Context(), "kubernetes")
				if err != nil || len(listed) == 1 != want {
					t.Errorf("%d routes, %v", len(listed), err)
				}
				if err := r.CreateRoute(t.Context(), "kubernetes", "", &cloudprovider.Route{TargetNode: "w1"}); (err == nil) != want {
					t.Errorf("creating its route: %v", err)
				}
			})
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
			text := "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]\n" +
				c.podNetwork + "  racks: [{name: r01, machines: [{name: w1, addresses: [10.10.1.11]}]}]\n"
			inv := inForce(t, text).Get()
			if Offered(inv) != (c.want != "") {
				t.Errorf("offered: %t", Offered(inv))
			}
			if got := clusterCIDRs(inv, ""); got != c.want {
				t.Errorf("cluster CIDRs %q, not %q", got, c.want)
			}
			if got := clusterCIDRs(inv, "10.0.0.0/8"); c.want != "" && got != "10.0.0.0/8" {
				t.Errorf("--cluster-cidr was overruled by %q", got)
			}
		})
	}
	if Offered(nil) || clusterCIDRs(nil, "10.0.0.0/8") != "" {
		t.Error("offered without an inventory")
	}
}

func TestAnAgentsConditionLooksLikeAResyncToTheRouteController(t *testing.T) {
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
