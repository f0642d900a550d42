package node

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/taken"
)

// inPools returns the addresses of a Node that the pools of an inventory contain; nil: none, or no inventory is in force.
func inPools(inv *inventory.Inventory, node *v1.Node) []inventory.TakenAddress {
	if inv == nil {
		return nil
	}
	return taken.InPools(node, inv.PoolRanges())
}

// inPoolLabel is the value of [lb.InPoolLabel] that a Node should have by an inventory; empty: none. It is wrong where the Node has
// another one; without an inventory none is.
func inPoolLabel(inv *inventory.Inventory, node *v1.Node) (pool string, wrong bool) {
	if in := inPools(inv, node); len(in) > 0 {
		pool = slices.MinFunc(in, func(a, b inventory.TakenAddress) int { return cmp.Compare(a.Pool, b.Pool) }).Pool
	}
	has, there := node.Labels[lb.InPoolLabel]
	return pool, inv != nil && (has != pool || there && pool == "")
}

// labelInPool reconciles the label [lb.InPoolLabel] of a Node, and reports whether that took a write. It does so of every Node, of those too
// that are no machine and of those that nobody has initialised: their pods run, and agents of other racks learn of them by it alone. So
// it is a write of its own, which says nothing else of the Node, and takes the label away whoever put it there.
func (c *Controller) labelInPool(ctx context.Context, node *v1.Node) (wrote bool, err error) {
	pool, wrong := inPoolLabel(c.options.InForce.Get(), node)
	if !wrong {
		return false, nil
	}
	patch, err := inPoolPatch(node, pool)
	if err != nil {
		return false, err
	}
	if _, err := c.cluster.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return false, err
	}
	if pool == "" {
		c.log.Info("took the label of a pool from a node: none has addresses of it", "node", node.Name, "pool", node.Labels[lb.InPoolLabel])
	} else {
		c.log.Info("labelled a node by the pool that has addresses of it", "node", node.Name, "pool", pool)
	}
	return true, nil
}

// inPoolPatch returns the patch that sets or removes the label of the Node as it was read.
func inPoolPatch(node *v1.Node, pool string) ([]byte, error) {
	var value any // null takes a label away
	if pool != "" {
		value = pool
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion, "labels": map[string]any{lb.InPoolLabel: value},
	}})
}
