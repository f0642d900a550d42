package provider

import (
	"context"

	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/provider/stock"
)

// InstancesV2 answers for machines.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return stock.InstancesV2{Index: c.index, Report: c.nodes.Report}, true
}

// Instances is not answered, and neither are Zones and Clusters: where InstancesV2 is, the stock
// controllers ask none of them (k8s.io/cloud-provider v0.37.2, cloud.go, on InstancesV2:
// "Implementation of this interface will disable calls to the Zones interface").
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not answered; see Instances.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not answered; see Instances.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes answers for pod routes, unless a CNI makes them.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) {
	if !stock.Offered(c.inForce.Get()) {
		return nil, false
	}
	return stock.Routes{InForce: &c.inForce, Nodes: c.nodeLister()}, true
}

func (c *Cloud) nodeLister() corelisters.NodeLister { return c.informers.Core().V1().Nodes().Lister() }

// LoadBalancer answers the stock service controller, which Plinth's own programs do not
// run: it is for others, that link this provider with it.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.vips.Stock(), !c.options.ClassOnly
}

// Remember has this process remember who holds which VIP until ctx ends, whether it leads
// or not; see [vip.Controller.Remember].
func (c *Cloud) Remember(ctx context.Context, client kubernetes.Interface) {
	c.vips.Remember(ctx, client)
}
