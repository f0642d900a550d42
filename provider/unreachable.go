package provider

import (
	"context"
	"errors"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/cluster"
)

// errNoInformers passes: they come a moment after the reconciler has begun.
var errNoInformers = errors.New("the informers are not there yet")

// readCluster prepares what an edit of the inventory is held against.
func (c *Cloud) readCluster() {
	r, err := cluster.New(claim.Client{Kube: c.client, Namespace: c.options.Namespace}, c.informers)
	if err != nil {
		c.log.Error("cannot follow EndpointSlices", "err", err)
		return
	}
	c.cluster.Store(r)
}

// unreachable says how many VIPs are in use, and which of them an edit would take from everybody.
func (c *Cloud) unreachable(ctx context.Context, before, after *inventory.Inventory) (inUse int, lost []inventory.LostVIP, err error) {
	r := c.cluster.Load()
	if r == nil {
		return 0, nil, errNoInformers
	}
	now, err := r.Read(ctx)
	if err != nil {
		return 0, nil, err
	}
	return now.VIPsInUse(), preview.Unreachable(before, after, now), nil
}
