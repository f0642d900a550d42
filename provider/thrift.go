package provider

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// thriftyClient is what the stock node controller writes with. The controller
// decides when a Node is initialised; through this client it does so with one
// write that says all that the inventory has to say (labels of every domain,
// taints, pod CIDRs), owned by Plinth's field manager, where it would take
// three. And what says nothing is not sent: a status patch as the controller
// makes every five minutes for every dual-stack Node, and an Event for each Node
// that was initialised.
type thriftyClient struct {
	kubernetes.Interface
	cloud *Cloud
}

// CoreV1 returns the client of the core API group.
func (c thriftyClient) CoreV1() typedv1.CoreV1Interface {
	return thriftyCore{c.Interface.CoreV1(), c.cloud}
}

type thriftyCore struct {
	typedv1.CoreV1Interface
	cloud *Cloud
}

// Nodes returns the client of Nodes.
func (c thriftyCore) Nodes() typedv1.NodeInterface {
	return thriftyNodes{c.CoreV1Interface.Nodes(), c.cloud}
}

type thriftyNodes struct {
	typedv1.NodeInterface
	cloud *Cloud
}

// Update applies what the inventory wants of a Node, and the controller's
// removal of its taint, where the inventory knows the Node.
func (n thriftyNodes) Update(ctx context.Context, node *v1.Node, options metav1.UpdateOptions) (*v1.Node, error) {
	w, ok := n.cloud.wishOf(node)
	if !ok {
		return n.NodeInterface.Update(ctx, node, options)
	}
	current, err := n.cloud.nodes.Get(node.Name)
	if err != nil {
		return nil, err
	}
	patch, err := w.initial(current, node)
	if err != nil {
		return nil, err
	}
	return apply(ctx, n.NodeInterface, patch)
}

// initial is the patch that initialises a Node: current as it is, node as the
// stock controller wants it.
func (w wish) initial(current, node *v1.Node) (nodePatch, error) {
	patch, _, err := w.patch(current)
	if err != nil {
		return nodePatch{}, err
	}
	patch.Metadata.ResourceVersion = node.ResourceVersion
	taints, _ := mergeTaints(node.Spec.Taints, recordedOn(current, w.formerly), w.taints)
	patch.setTaints(taints)
	return patch, nil
}

// Patch sends a patch that changes something.
func (n thriftyNodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*v1.Node, error) {
	if kind == types.StrategicMergePatchType && string(data) == "{}" {
		return n.cloud.nodes.Get(name)
	}
	return n.NodeInterface.Patch(ctx, name, kind, data, options, subresources...)
}

// reasonSynced is what the stock controller says of a Node that it has
// initialised, which the Node itself shows.
const reasonSynced = "Synced"

// Events returns the client of Events.
func (c thriftyCore) Events(namespace string) typedv1.EventInterface {
	return quietEvents{c.CoreV1Interface.Events(namespace), func(e *v1.Event) bool {
		return e.Type == v1.EventTypeNormal && e.Reason == reasonSynced
	}}
}
