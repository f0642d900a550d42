package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/provider/queue"
	"plinth.dev/plinth/provider/taken"
)

// New returns a Controller that does nothing yet. Use comes before Start. It follows the
// inventory in force at once: the index is to follow after it, so that what an inventory wants
// of a Node is known before it is asked.
func New(o Options) *Controller {
	c := &Controller{options: o, log: o.Log.With("controller", "plinth-node-controller"), wanted: wantedTaints{all: map[string]map[string]bool{}}}
	c.queue = queue.New("plinth_nodes", c.log, c.sync)
	o.InForce.Follow(c.wanted.observe)
	return c
}

// Start starts the controller, which runs until ctx ends.
func (c *Controller) Start(ctx context.Context, workers int) error {
	informer := c.cluster.Nodes.Informer()
	if _, err := informer.AddEventHandler(c.handler()); err != nil {
		return err
	}
	go c.run(ctx, workers, informer.HasSynced)
	return nil
}

func (c *Controller) run(ctx context.Context, workers int, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	go wait.UntilWithContext(ctx, (&overlaps{controller: c}).report, overlapsEvery)
	c.options.InForce.Follow(func(*inventory.Inventory) { c.enqueueAll() })
	c.queue.Run(ctx, workers)
}

// handler queues a Node when something changed that this controller keeps.
func (c *Controller) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			node := o.(*v1.Node)
			if c.isOurs(node) {
				c.queue.Add(node.Name)
			}
			c.enqueueSharing(node)
		},
		UpdateFunc: func(was, is any) {
			old, node := was.(*v1.Node), is.(*v1.Node)
			if old.UID != node.UID { // it was missed that the old one went
				c.cluster.Reports.Forget(old.UID)
			}
			if (old.ResourceVersion == node.ResourceVersion || changed(old, node)) && c.isOurs(node) {
				c.queue.Add(node.Name)
			}
			if !nodeindex.SaysAlike(old, node) {
				c.enqueueSharing(old)
				c.enqueueSharing(node)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			c.cluster.Reports.Forget(o.(*v1.Node).UID)
			c.enqueueAll() // another Node may need its machine or its pod CIDRs
		},
	}
}

// isOurs reports whether a Node is to be looked at now. One that the stock controller is about to initialise is left to it: that
// write says all that there is to say, but for the label of a pool.
func (c *Controller) isOurs(node *v1.Node) bool {
	if !initialising(node) {
		return true
	}
	_, wrong := inPoolLabel(c.options.InForce.Get(), node)
	return wrong
}

// enqueueSharing queues the other Nodes that report the system UUID of a Node: what it tells of them depends on this one.
func (c *Controller) enqueueSharing(node *v1.Node) {
	for _, name := range c.options.Index.ReportingTheSame(node) {
		c.queue.Add(name)
	}
}

// changed reports whether a Node differs in what the inventory has a say in.
// Heartbeats do not count.
func changed(a, b *v1.Node) bool {
	return a.UID != b.UID || !nodeindex.State(a).Equal(nodeindex.State(b)) || !maps.Equal(a.Labels, b.Labels) ||
		!slices.Equal(taken.ByNode(a), taken.ByNode(b)) || !equalTaints(a.Spec.Taints, b.Spec.Taints)
}

// enqueueAll queues every Node: a new inventory is in force. Those that are not initialised
// yet are written too, which has the stock controller look at them again at once rather than
// when its back-off ends.
func (c *Controller) enqueueAll() {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		c.log.Error("cannot list nodes", "err", err)
	}
	for _, node := range nodes {
		c.queue.Add(node.Name)
	}
}

// sync reconciles one Node. A Node that is none of ours, or of which it
// cannot be told which machine it is, is reported and left alone, but for the label of a pool.
func (c *Controller) sync(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	desired, ok := c.desiredOf(node)
	wrote, err := c.labelInPool(ctx, node)
	if wrote || apierrors.IsConflict(err) {
		return err // the informer shows what was written, and then the rest is done
	}
	if ok {
		err = errors.Join(err, c.applyDesired(ctx, node, desired)) // whoever refuses a label may take the rest
	}
	return err
}

// applyDesired brings a Node to its desired state.
func (c *Controller) applyDesired(ctx context.Context, node *v1.Node, d desired) error {
	patch, ok, err := d.patch(node)
	if err != nil || !ok {
		return err
	}
	if _, err := apply(ctx, c.cluster.Client.CoreV1().Nodes(), patch); err != nil {
		return err
	}
	c.log.Info("reconciled a node with the inventory", "node", node.Name)
	return nil
}
