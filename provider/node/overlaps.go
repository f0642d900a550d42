package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// overlapsEvery is how often pod CIDRs that overlap are looked for.
const overlapsEvery = 5 * time.Second

// overlaps reports Nodes whose pod CIDRs overlap. The agents route such a CIDR to the older
// of the two.
type overlaps struct {
	controller *Controller
	nodes      []string // that have a pod CIDR of another, as of the last time
}

// report records an Event on every Node that has a pod CIDR of another one, and did not
// before.
func (o *overlaps) report(context.Context) {
	controller := o.controller
	with := controller.options.Index.PodCIDROverlaps()
	for _, name := range slices.Concat(o.nodes, slices.Collect(maps.Keys(with))) {
		node, err := controller.nodes.Get(name)
		if err != nil {
			continue // it is gone
		}
		if other := with[name]; other != "" {
			controller.warn(node, reasonPodCIDRInUse, fmt.Sprintf("node %s has pod CIDRs that overlap this one's %v; the older of the two is routed to, and of two of one second that whose name comes first", other, node.Spec.PodCIDRs))
		} else {
			controller.cluster.Reports.Clear(node, reasonPodCIDRInUse)
		}
	}
	o.nodes = slices.Sorted(maps.Keys(with))
}
