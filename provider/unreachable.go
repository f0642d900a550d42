package provider

import (
	"context"
	"errors"
	"net/netip"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/cluster"
	"plinth.dev/plinth/provider/nodeindex"
)

// errNoInformers passes: they come a moment after the reconciler has begun.
var errNoInformers = errors.New("the informers are not there yet")

// readCluster prepares the reader that edits of the inventory are judged by, and that tells which VIPs nobody
// announces.
func (c *Cloud) readCluster() {
	reader, err := cluster.New(claim.Client{Kube: c.client, Namespace: c.options.Namespace}, c.informers)
	if err != nil {
		c.log.Error("cannot follow EndpointSlices", "err", err)
		return
	}
	if err := reader.OnChange(c.vips.AnnouncementsChanged, c.vips.AnnouncementsDisputed); err != nil {
		c.log.Error("cannot follow what announcements depend on", "err", err)
	}
	c.cluster.Store(reader)
}

// clusterLosses returns the losses that an edit would cause in the cluster.
func (c *Cloud) clusterLosses(ctx context.Context, before, after *inventory.Inventory) (edit.Losses, error) {
	r := c.cluster.Load()
	if r == nil {
		return edit.Losses{}, errNoInformers
	}
	now, err := r.Read(ctx)
	if err != nil {
		return edit.Losses{}, err
	}
	return preview.Losses(before, after, now), nil
}

// unannounced returns which of the VIPs that Services hold nobody announces, by the inventory in
// force.
func (c *Cloud) unannounced(ctx context.Context, held map[lb.ServiceKey][]netip.Addr) ([]preview.Unannounced, error) {
	reader, inv := c.cluster.Load(), c.inForce.Get()
	switch {
	case reader == nil:
		return nil, errNoInformers
	case inv == nil:
		return nil, nodeindex.ErrNoInventory
	}
	now, err := reader.With(ctx, held)
	if err != nil {
		return nil, err
	}
	return preview.UnannouncedOf(inv, now), nil
}
