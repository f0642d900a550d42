package provider

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"plinth.dev/plinth/inventory/source"
)

// newReconciler returns the reconciler of the inventory, which has read nothing yet.
func (c *Cloud) newReconciler() *source.Reconciler {
	return source.NewReconciler(source.Config{
		Client:        c.client,
		Namespace:     c.options.Namespace,
		Source:        c.source(),
		Recorder:      c.recorder,
		Log:           c.log,
		Metrics:       source.NewMetrics(),
		Enforce:       c.inForce.Set,
		ClusterLosses: c.clusterLosses,
		Agents:        c.agents,
		Lease:         c.electedBy(),
		Program:       source.Program(),
		Overtaken:     c.options.Restart,
	})
}

// electedBy is the name of the lease that this process leads by; empty: it was not elected.
func (c *Cloud) electedBy() string {
	if c.options.LeaseIn == "" {
		return ""
	}
	return c.options.Lease
}

// reconcileInventory reconciles the inventory in force with the one that people write, until ctx ends.
func (c *Cloud) reconcileInventory(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.reconciler.Run(ctx); err != nil {
			c.log.Error("cannot follow the inventory", "err", err)
		}
	}, time.Second)
}

func (c *Cloud) source() source.Source {
	if c.options.Inventory != "" {
		return source.Files{Path: c.options.Inventory, Log: c.log}
	}
	return source.ConfigMaps{Client: c.client, Namespace: c.options.Namespace}
}
