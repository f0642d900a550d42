package stock

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
)

// TestTheRouteControllerSeesOnlyWhatItHasSomethingToDoFor: a Node whose agent and whose
// condition of the network say the same is nothing to look at.
func TestTheRouteControllerSeesOnlyWhatItHasSomethingToDoFor(t *testing.T) {
	for name, c := range map[string]struct {
		agent, network v1.ConditionStatus
		reason         string // of the network's
		seen           bool
	}{
		"its network is available":       {v1.ConditionTrue, v1.ConditionFalse, routeCreated, false},
		"nobody has said so yet":         {v1.ConditionTrue, "", "", true},
		"its agent has just said so":     {v1.ConditionTrue, v1.ConditionTrue, "NoRouteCreated", true},
		"a CNI has said so":              {v1.ConditionTrue, v1.ConditionFalse, "CiliumIsUp", true},
		"its agent takes it back":        {v1.ConditionFalse, v1.ConditionFalse, routeCreated, true},
		"its agent has not said so yet":  {"", v1.ConditionTrue, "NoRouteCreated", true},
		"its agent is gone since":        {"", v1.ConditionFalse, routeCreated, true},
		"its agent says that it has not": {v1.ConditionFalse, v1.ConditionTrue, "NoRouteCreated", true},
	} {
		node := &v1.Node{Spec: v1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}}}
		node.Name = "w1"
		node.Status.Conditions = []v1.NodeCondition{
			{Type: lb.FabricReady, Status: c.agent, Reason: "Incomplete"}, {Type: v1.NodeNetworkUnavailable, Status: c.network, Reason: c.reason},
		}
		all := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		if err := all.Add(node); err != nil {
			t.Fatal(err)
		}
		nodes := corelisters.NewNodeLister(all)
		pending := &pendingRoutes{Routes: Routes{InForce: inForce(t, ""), Nodes: nodes}}
		listed, err := pending.ListRoutes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		seen, err := pendingNodes{nodes, pending}.List(labels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		if (len(seen) > 0) != c.seen {
			t.Errorf("%s: it sees %d Nodes", name, len(seen))
		}
		if want := c.seen && c.agent == v1.ConditionTrue; (len(listed) > 0) != want {
			t.Errorf("%s: it sees %d routes", name, len(listed))
		}
	}
}

// TestARouteIsNeverSeenWithoutItsNode: the route controller would have it deleted. The Node
// changes between its two questions.
func TestARouteIsNeverSeenWithoutItsNode(t *testing.T) {
	node := &v1.Node{Spec: v1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}}}
	node.Name = "w1"
	node.Status.Conditions = []v1.NodeCondition{{Type: lb.FabricReady, Status: v1.ConditionTrue}}
	all := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	nodes := corelisters.NewNodeLister(all)
	pending := &pendingRoutes{Routes: Routes{InForce: inForce(t, ""), Nodes: nodes}}
	for _, settled := range []bool{false, true} {
		if err := all.Add(node); err != nil {
			t.Fatal(err)
		}
		if settled {
			node = node.DeepCopy()
			node.Status.Conditions = append(slices.Clone(node.Status.Conditions), v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse, Reason: routeCreated})
		}
		if routes, err := pending.ListRoutes(t.Context(), ""); err != nil || len(routes) != 1 {
			t.Fatalf("%d routes, %v", len(routes), err)
		}
		if err := all.Add(node); err != nil {
			t.Fatal(err)
		}
		if seen, err := (pendingNodes{nodes, pending}).List(labels.Everything()); err != nil || len(seen) != 1 {
			t.Errorf("settled %v: %d Nodes, %v", settled, len(seen), err)
		}
	}
	if routes, err := pending.ListRoutes(t.Context(), ""); err != nil || len(routes) != 0 {
		t.Errorf("%d routes, %v", len(routes), err)
	}
}
