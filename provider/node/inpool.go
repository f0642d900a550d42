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

// inPools is what the pools in force have of a Node.
func (c *Controller) inPools(node *v1.Node) []inventory.TakenAddress {
	inv := c.options.InForce.Get()
	if inv == nil {
		return nil
	}
	return taken.InPools(node, inv.PoolRanges())
}

// inPoolLabel is the value of [lb.InPoolLabel] that a Node should have; empty: none. ok is false where it has it, or nothing is known.
func (c *Controller) inPoolLabel(node *v1.Node) (pool string, ok bool) {
	if in := c.inPools(node); len(in) > 0 {
		pool = slices.MinFunc(in, func(a, b inventory.TakenAddress) int { return cmp.Compare(a.Pool, b.Pool) }).Pool
	}
	has, there := node.Labels[lb.InPoolLabel]
	return pool, c.options.InForce.Get() != nil && (has != pool || there && pool == "")
}

// labelInPool has a Node bear [lb.InPoolLabel] as it should, and reports whether that took a write. It does so of every Node, of those too
// that are no machine and of those that nobody has initialised: their pods run, and agents of other racks learn of them by it alone. So
// it is a write of its own, which says nothing else of the Node, and takes the label away whoever put it there.
func (c *Controller) labelInPool(ctx context.Context, node *v1.Node) (wrote bool, err error) {
	pool, ok := c.inPoolLabel(node)
	if !ok {
		return false, nil
	}
	patch, err := inPoolPatch(node, pool)
	if err != nil {
		return false, err
	}
	if _, err := c.cluster.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return false, err
	}
	c.log.Info("labelled a node by the pool that has addresses of it", "node", node.Name, "pool", pool)
	return true, nil
}

// inPoolPatch has the Node as it was read bear the label, or not.
func inPoolPatch(node *v1.Node, pool string) ([]byte, error) {
	var value any // null takes a label away
	if pool != "" {
		value = pool
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion, "labels": map[string]any{lb.InPoolLabel: value},
	}})
}
