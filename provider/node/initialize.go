package node

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	api "k8s.io/cloud-provider/api"
)

// initialising reports whether the stock controller has yet to initialise a Node.
func initialising(node *v1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == api.TaintExternalCloudProvider })
}

// Initialize initialises a Node with one write of all that the inventory wants of it (labels
// of every domain, taints, pod CIDRs), owned by Plinth's field manager. node is as the stock
// node controller would write it, without its taint. ok is false where the inventory wants
// nothing of the Node, and nothing was written.
func (c *Controller) Initialize(ctx context.Context, nodes typedv1.NodeInterface, node *v1.Node) (applied *v1.Node, ok bool, err error) {
	desired, ok := c.desiredOf(node)
	if !ok {
		return nil, false, nil
	}
	current, err := c.nodes.Get(node.Name)
	if err != nil {
		return nil, true, err
	}
	patch, err := desired.initial(current, node)
	if err != nil {
		return nil, true, err
	}
	applied, err = apply(ctx, nodes, patch)
	return applied, true, err
}

// initial is the patch that initialises a Node: current as it is, node as the
// stock controller wants it.
func (d desired) initial(current, node *v1.Node) (nodePatch, error) {
	patch, _, err := d.patch(current)
	if err != nil {
		return nodePatch{}, err
	}
	patch.Metadata.ResourceVersion = node.ResourceVersion
	taints, _ := mergeTaints(node.Spec.Taints, recordedOn(current, d.formerly), d.taints)
	patch.setTaints(stamped(taints, current.Spec.Taints, metav1.Now()))
	return patch, nil
}
