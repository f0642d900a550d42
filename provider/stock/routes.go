package stock

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/nodeindex"
)

// Routes lists the routes that agents acknowledged. It makes no route itself: the
// agents do that, from the same Nodes.
type Routes struct {
	InForce *source.InForce
	Nodes   corelisters.NodeLister
}

var _ cloudprovider.Routes = Routes{}

// Offered reports whether an inventory has Plinth make the routes to pods: without, a CNI
// does.
func Offered(inv *inventory.Inventory) bool {
	return inv != nil && inv.PodNetwork.Mode != inventory.ModeNone
}

// ListRoutes returns the pod CIDRs of every Node whose agent has acknowledged
// that they can be reached.
func (r Routes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	nodes, err := r.Nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var out []*cloudprovider.Route
	for _, node := range nodes {
		if r.acknowledged(node) {
			out = append(out, routesOf(node)...)
		}
	}
	return out, nil
}

func routesOf(node *v1.Node) []*cloudprovider.Route {
	var out []*cloudprovider.Route
	for _, cidr := range node.Spec.PodCIDRs {
		out = append(out, &cloudprovider.Route{
			Name:                node.Name + " " + cidr,
			TargetNode:          types.NodeName(node.Name),
			EnableNodeAddresses: true,
			TargetNodeAddresses: node.Status.Addresses,
			DestinationCIDR:     cidr,
		})
	}
	return out
}

// CreateRoute returns nil once the agent of the Node has acknowledged its
// routes: by that the stock controller tells the scheduler that the Node's
// network is available.
func (r Routes) CreateRoute(_ context.Context, _, _ string, route *cloudprovider.Route) error {
	if r.InForce.Get() == nil {
		return nodeindex.ErrNoInventory
	}
	node, err := r.Nodes.Get(string(route.TargetNode))
	if err != nil {
		return err
	}
	switch condition := fabric(node); {
	case r.acknowledged(node):
		return nil
	case condition.Status == "":
		return fmt.Errorf("node %s: its agent has not said yet that the route is in place", node.Name)
	default:
		return fmt.Errorf("node %s: its agent says: %s", node.Name, condition.Message)
	}
}

// acknowledged reports whether the agent has said that the Node's pods can be reached. What
// carries them counts: where that is routers, a Node that never had a network waits until
// a router knows it. A router that goes down takes no network away that a Node had: pods of
// other racks are reached through the other routers.
func (r Routes) acknowledged(node *v1.Node) bool {
	switch fabric := fabric(node); {
	case fabric.Status == v1.ConditionTrue, fabric.Reason == lb.FabricDegraded:
		return true
	case fabric.Reason == lb.FabricSessionsDown:
		return nodeindex.Condition(node, v1.NodeNetworkUnavailable).Status == v1.ConditionFalse || !routersCarryPods(r.InForce.Get(), node)
	case fabric.Reason == lb.FabricCutOff:
		return !routersCarryPods(r.InForce.Get(), node)
	}
	return false
}

// routersCarryPods reports whether routers are on the way between the Node's pods and those
// of any other machine that has a Node: in fabric, beyond its own subnet.
func routersCarryPods(inv *inventory.Inventory, node *v1.Node) bool {
	machine, err := nodeindex.Match(inv, nodeindex.Identity(node))
	switch {
	case err != nil:
		return true // it cannot be told
	case inv.PodNetwork.Mode != inventory.ModeFabric:
		return false
	}
	for other := range inv.Machines() {
		hasNode := other.State != inventory.StatePlanned && other.State != inventory.StateRetired
		if hasNode && !inv.SameSubnet(machine, other) {
			return true
		}
	}
	return false
}

// DeleteRoute has nothing to do: the agents drop the routes of a Node that is
// gone when they see that it is.
func (r Routes) DeleteRoute(context.Context, string, *cloudprovider.Route) error { return nil }

// fabric returns the Node's condition [lb.FabricReady]; its zero value where there is none.
func fabric(node *v1.Node) v1.NodeCondition { return nodeindex.Condition(node, lb.FabricReady) }
