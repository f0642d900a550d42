package provider

import (
	"context"
	"os"

	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/provider/stock"
)

// InstancesV2 answers for machines.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return stock.InstancesV2{Index: c.index, Report: c.nodes.Report}, true
}

// Instances answers for machines by name and provider ID. The stock controllers ask it only of clouds without InstancesV2
// (k8s.io/cloud-provider v0.37.2, cloud.go); it is for whoever links this provider and asks so.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) {
	return stock.Instances{Index: c.index}, true
}

// Zones answers where machines are; see Instances.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) {
	return stock.Zones{Instances: stock.Instances{Index: c.index}, Here: here}, true
}

// here returns the name of the Node that this process runs on, which the environment variable NODE_NAME has, or else the name of its host.
func here() (string, error) {
	if name := os.Getenv("NODE_NAME"); name != "" {
		return name, nil
	}
	return os.Hostname()
}

// Clusters answers for the one cluster that there is; nothing of Kubernetes asks it.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) {
	return stock.Clusters{Index: c.index}, true
}

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
