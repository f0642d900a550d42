package stock

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/provider/nodeindex"
)

// routeCreated is the reason that the stock route controller gives where it has said that a
// Node's network is available.
const routeCreated = "RouteCreated"

// pendingRoutes shows the stock route controller the Nodes and routes that it has something
// to do for, and no others: it logs a line for each pod CIDR that it is shown, every ten
// seconds. Only its one goroutine uses it.
type pendingRoutes struct {
	Routes
	shown map[types.NodeName]bool // whose routes were listed last
}

// done reports whether the stock route controller has said of a Node what there is to say:
// its agent has acknowledged the routes, and its network is available.
func (r Routes) done(node *v1.Node) bool {
	said := nodeindex.Condition(node, v1.NodeNetworkUnavailable)
	return said.Status == v1.ConditionFalse && said.Reason == routeCreated && r.acknowledged(node)
}

// ListRoutes returns the routes of [Routes] without those of Nodes that are done.
func (p *pendingRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	nodes, err := p.Nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	p.shown = map[types.NodeName]bool{}
	var out []*cloudprovider.Route
	for _, node := range nodes {
		if p.acknowledged(node) && !p.done(node) {
			p.shown[types.NodeName(node.Name)] = true
			out = append(out, routesOf(node)...)
		}
	}
	return out, nil
}

// pendingNodes lists the Nodes that are not done.
type pendingNodes struct {
	corelisters.NodeLister
	pending *pendingRoutes
}

// List leaves no Node out whose route was listed: the route would count as one to be deleted.
func (l pendingNodes) List(selector labels.Selector) ([]*v1.Node, error) {
	nodes, err := l.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes, func(n *v1.Node) bool {
		return !l.pending.shown[types.NodeName(n.Name)] && l.pending.done(n)
	}), nil
}
