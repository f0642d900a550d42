package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/provider/queue"
)

// Controller keeps labels, taints, provider ID and pod CIDRs of every Node as the inventory
// wants them, for as long as the Node lives.
//
// It uses these verbs of the API:
//
//	nodes       get list watch patch
//	events      create patch
//	configmaps  create patch, of the name plinth-inventory-status in Plinth's namespace
type Controller struct {
	options Options
	cluster Cluster
	log     *slog.Logger
	nodes   corelisters.NodeLister
	queue   *queue.Queue
	wanted  wantedTaints
}

// Options say what of the inventory and of all Nodes the controller reads.
type Options struct {
	Namespace string // of Plinth's ConfigMaps
	InForce   *source.InForce
	Index     *nodeindex.Index
	Log       *slog.Logger
}

// Cluster is what the API server is reached by.
type Cluster struct {
	Client   kubernetes.Interface
	Nodes    coreinformers.NodeInformer
	Recorder record.EventRecorder
	Reports  *event.Reports
}

// New returns a Controller that does nothing yet. Use comes before Start. It follows the
// inventory in force at once: the index is to follow after it, so that what an inventory wants
// of a Node is known before it is asked.
func New(o Options) *Controller {
	c := &Controller{options: o, log: o.Log.With("controller", "plinth-node-controller"), wanted: wantedTaints{all: map[string]map[string]bool{}}}
	c.queue = queue.New("plinth_nodes", c.log, c.sync)
	o.InForce.Follow(c.wanted.observe)
	return c
}

// Use takes what the API server is reached by, before anything is started.
func (c *Controller) Use(cluster Cluster) { c.cluster, c.nodes = cluster, cluster.Nodes.Lister() }

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

// handler queues a Node when something changed that this controller keeps. A
// Node that the stock controller is about to initialise is left to it: that
// write says all that there is to say.
func (c *Controller) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if node := o.(*v1.Node); !initialising(node) {
				c.queue.Add(node.Name)
			}
		},
		UpdateFunc: func(was, is any) {
			old, node := was.(*v1.Node), is.(*v1.Node)
			if old.UID != node.UID { // it was missed that the old one went
				c.cluster.Reports.Forget(old.UID)
			}
			if !initialising(node) && (old.ResourceVersion == node.ResourceVersion || changed(old, node)) {
				c.queue.Add(node.Name)
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

// changed reports whether a Node differs in what the inventory has a say in.
// Heartbeats do not count.
func changed(a, b *v1.Node) bool {
	return a.UID != b.UID || nodeindex.State(a) != nodeindex.State(b) || !maps.Equal(a.Labels, b.Labels) ||
		!equalTaints(a.Spec.Taints, b.Spec.Taints) || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs)
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
// cannot be told which machine it is, is reported and left alone.
func (c *Controller) sync(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	d, ok := c.desiredOf(node)
	if !ok {
		return nil
	}
	patch, ok, err := d.patch(node)
	if err != nil || !ok {
		return err
	}
	if _, err := apply(ctx, c.cluster.Client.CoreV1().Nodes(), patch); err != nil {
		return err
	}
	c.log.Info("reconciled a node with the inventory", "node", name)
	return nil
}
