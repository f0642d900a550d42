package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	api "k8s.io/cloud-provider/api"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/queue"
	"plinth.dev/plinth/routing"
)

const taintUninitialized = api.TaintExternalCloudProvider

// Reasons of Events on Nodes.
const (
	reasonNoMachine     = "NoMachine"       // the inventory has no machine for the Node
	reasonUnexpected    = "Unexpected"      // the machine is planned or retired and should have no Node
	reasonAmbiguous     = "Ambiguous"       // it cannot be told which machine the Node is
	reasonReplaced      = "MachineReplaced" // another machine, or none, is in the place of the Node's
	reasonPodCIDRInUse  = "PodCIDRInUse"    // another Node has the pod CIDRs that this one should get
	reasonPodCIDRDiffer = "PodCIDRDiffer"   // the Node has other pod CIDRs than the inventory gives its machine
)

// nodeController keeps labels, taints, provider ID and pod CIDRs of every Node
// as the inventory wants them, for as long as the Node lives.
type nodeController struct {
	cloud *Cloud
	queue *queue.Queue
}

// startNodeController starts the controller of labels, taints and pod CIDRs.
func startNodeController(ctx context.Context, c *Cloud, s start) error {
	n := &nodeController{cloud: c}
	n.queue = queue.New("plinth_nodes", c.log, n.sync)
	informer := c.informers.Core().V1().Nodes().Informer()
	if _, err := informer.AddEventHandler(n.handler()); err != nil {
		return err
	}
	go n.run(ctx, int(s.config.ComponentConfig.NodeController.ConcurrentNodeSyncs), informer.HasSynced)
	return nil
}

func (n *nodeController) run(ctx context.Context, workers int, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	go wait.UntilWithContext(ctx, (&overlaps{cloud: n.cloud}).look, overlapsEvery)
	n.cloud.inForce.Follow(func(*inventory.Inventory) { n.all() })
	n.queue.Run(ctx, workers)
}

// handler queues a Node when something changed that this controller keeps. A
// Node that the stock controller is about to initialise is left to it: that
// write says all that there is to say.
func (n *nodeController) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if node := o.(*v1.Node); !initialising(node) {
				n.queue.Add(node.Name)
			}
		},
		UpdateFunc: func(was, is any) {
			old, node := was.(*v1.Node), is.(*v1.Node)
			if !initialising(node) && (old.ResourceVersion == node.ResourceVersion || changed(old, node)) {
				n.queue.Add(node.Name)
			}
		},
		// Another Node may have waited for its machine or its pod CIDRs.
		DeleteFunc: func(any) { n.all() },
	}
}

// changed reports whether a Node differs in what the inventory has a say in.
// Heartbeats do not count.
func changed(a, b *v1.Node) bool {
	return a.UID != b.UID || stateOf(a) != stateOf(b) || !maps.Equal(a.Labels, b.Labels) ||
		!equalTaints(a.Spec.Taints, b.Spec.Taints) || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs)
}

// all queues every Node: a new inventory is in force. Those that wait to be
// initialised are written too, which has the stock controller look at them
// again at once rather than when its back-off ends.
func (n *nodeController) all() {
	nodes, err := n.cloud.nodes.List(labels.Everything())
	if err != nil {
		n.cloud.log.Error("cannot list nodes", "err", err)
	}
	for _, node := range nodes {
		n.queue.Add(node.Name)
	}
}

// sync brings one Node in line. A Node that is none of ours, or of which it
// cannot be told which machine it is, is reported and left alone.
func (n *nodeController) sync(ctx context.Context, name string) error {
	node, err := n.cloud.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	w, ok := n.cloud.wishOf(node)
	if !ok {
		return nil
	}
	patch, ok, err := w.patch(node)
	if err != nil || !ok {
		return err
	}
	if _, err := apply(ctx, n.cloud.client.CoreV1().Nodes(), patch); err != nil {
		return err
	}
	n.cloud.log.Info("brought a node in line with the inventory", "node", name)
	return nil
}

// wishOf returns what the inventory wants of a Node; ok is false where it wants nothing.
func (c *Cloud) wishOf(node *v1.Node) (w wish, ok bool) {
	inv, m, err := c.machineOf(node)
	if !c.explain(node, err) || m.State == inventory.StateRetired {
		return wish{}, false
	}
	c.reportMismatches(node, m)
	w = wishFor(inv, m)
	w.formerly = c.wantedTaints.of(m, w.taints)
	if initialising(node) && expected(m) != nil {
		return wish{}, false
	}
	w.podCIDRs = c.freePodCIDRs(node, m)
	return w, true
}

// explain reports why a Node has no machine; it returns true where it has one.
func (c *Cloud) explain(node *v1.Node, err error) bool {
	reasons := []string{reasonNoMachine, reasonAmbiguous, reasonReplaced}
	reason := ""
	var replaced *inventory.ReplacedError
	switch {
	case err == nil, errors.Is(err, errNoInventory):
	case errors.Is(err, inventory.ErrNoMachine):
		reason = reasonNoMachine
	case errors.As(err, &replaced):
		reason = reasonReplaced
	default:
		reason = reasonAmbiguous
	}
	for _, r := range reasons {
		if r == reason {
			c.reports.Warn(node, r, err.Error())
		} else {
			c.reports.Clear(node, r)
		}
	}
	return err == nil
}

// reportMismatches reports in what a Node does not fit its machine, and the next step.
func (c *Cloud) reportMismatches(node *v1.Node, m inventory.Machine) {
	found := map[inventory.MismatchReason]string{}
	for _, mismatch := range m.Mismatches(stateOf(node)) {
		found[mismatch.Reason] = mismatch.Message
	}
	for _, reason := range inventory.MismatchReasons {
		if message, there := found[reason]; there {
			c.reports.Warn(node, string(reason), fmt.Sprintf("node %s: %s", node.Name, message))
		} else {
			c.reports.Clear(node, string(reason))
		}
	}
}

// freePodCIDRs returns the pod CIDRs that a Node without any should get. Blocks
// that another Node has, by whatever hand, are reported and not given again.
func (c *Cloud) freePodCIDRs(node *v1.Node, m inventory.Machine) []netip.Prefix {
	if len(m.PodCIDRs) == 0 {
		return nil
	}
	if len(node.Spec.PodCIDRs) > 0 {
		if has := routing.ParsePodCIDRs(node.Spec.PodCIDRs); !slices.Equal(has, m.PodCIDRs) {
			c.reports.Warn(node, reasonPodCIDRDiffer, fmt.Sprintf(
				"the node has the pod CIDRs %v, the inventory gives machine %s %v; a node's pod CIDRs never change", has, m.Name, m.PodCIDRs))
		}
		return nil
	}
	if holder, taken := c.roster.holder(m.PodCIDRs, node.Name); taken {
		c.reports.Warn(node, reasonPodCIDRInUse, fmt.Sprintf("node %s has pod CIDRs that overlap %v; if its machine is gone, run: kubectl delete node %s", holder, m.PodCIDRs, holder))
		return nil
	}
	c.reports.Clear(node, reasonPodCIDRInUse)
	return m.PodCIDRs
}

// apply writes a patch with Plinth's field manager. It is forced: what the
// inventory says of a Node holds against whoever said otherwise.
func apply(ctx context.Context, nodes typedv1.NodeInterface, patch nodePatch) (*v1.Node, error) {
	data, err := patch.bytes()
	if err != nil {
		return nil, err
	}
	force := true
	return nodes.Patch(ctx, patch.Metadata.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
}
