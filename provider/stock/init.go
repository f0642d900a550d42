package stock

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/names"
)

// StartNode starts the stock controller that initialises Nodes and keeps their
// addresses. It looks at addresses every five minutes, and when a new inventory
// is in force.
func (c *Controllers) StartNode(ctx context.Context, start Start) error {
	settings := start.Config.ComponentConfig
	stock, err := cloudnode.NewCloudNodeController(
		c.Nodes,
		nodeInitClient(start.client(), c.Nodes.Lister(), c.Initialize),
		c.Cloud,
		settings.NodeStatusUpdateFrequency.Duration,
		settings.NodeController.ConcurrentNodeSyncs,
		settings.NodeController.ConcurrentNodeStatusUpdates,
	)
	if err != nil {
		return err
	}
	go c.InForce.Once(ctx, func() { stock.RunWithContext(ctx, start.Context.ControllerManagerMetrics) })
	go c.InForce.OnChange(ctx, func() {
		if err := stock.UpdateNodeStatus(ctx); err != nil {
			c.Log.Error("cannot update the addresses of nodes", "controller", names.CloudNodeController, "err", err)
		}
	})
	return nil
}

// nodeInitClient returns the client that the stock node controller writes with. The controller
// decides when a Node is initialised; through this client it does so with one
// write of all that the inventory has of the Node, where it would take
// three. Writes that change nothing are not sent: a status patch as the controller
// makes every five minutes for every dual-stack Node, and an Event for each Node
// that was initialised.
func nodeInitClient(c kubernetes.Interface, cached corelisters.NodeLister, initialize initializer) kubernetes.Interface {
	return client{
		Interface: c,
		nodes:     func(n typedv1.NodeInterface) typedv1.NodeInterface { return initNodes{n, cached, initialize} },
		events:    func(e typedv1.EventInterface) typedv1.EventInterface { return initEvents{e} },
	}
}

// initializer writes all that the inventory wants of a Node, and that it is initialised; ok is
// false where the inventory wants nothing of it, and nothing was written.
type initializer func(ctx context.Context, nodes typedv1.NodeInterface, node *v1.Node) (applied *v1.Node, ok bool, err error)

type initNodes struct {
	typedv1.NodeInterface
	cached     corelisters.NodeLister
	initialize initializer
}

// Update initialises a Node, with all that the inventory wants of it if it knows it. The stock controller takes it from the cache, which
// keeps a part of the managed fields: sent as they are there, the others' would be lost. Without any the API server keeps its own
// (apimachinery's pkg/util/managedfields/internal, Update).
func (n initNodes) Update(ctx context.Context, node *v1.Node, options metav1.UpdateOptions) (*v1.Node, error) {
	if applied, ok, err := n.initialize(ctx, n.NodeInterface, node); ok {
		return applied, err
	}
	sent := *node
	sent.ManagedFields = nil
	return n.NodeInterface.Update(ctx, &sent, options)
}

// Patch sends a patch that changes something.
func (n initNodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*v1.Node, error) {
	if kind == types.StrategicMergePatchType && string(data) == "{}" {
		return n.cached.Get(name)
	}
	return n.NodeInterface.Patch(ctx, name, kind, data, options, subresources...)
}

// reasonSynced is the reason of the stock controller's Event on a Node that it has
// initialised, which the Node itself shows.
const reasonSynced = "Synced"

// initEvents is a client of Events that does not send those.
type initEvents struct{ typedv1.EventInterface }

// CreateWithEventNamespace creates an Event. It is what the recorder of the stock controller
// calls; to count an Event it calls this as well, where none was created.
func (e initEvents) CreateWithEventNamespace(event *v1.Event) (*v1.Event, error) {
	if event.Type == v1.EventTypeNormal && event.Reason == reasonSynced {
		return event, nil
	}
	return e.EventInterface.CreateWithEventNamespaceWithContext(context.Background(), event)
}
