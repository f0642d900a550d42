package provider

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/provider/stock"
	"plinth.dev/plinth/provider/volume"
)

// InstancesV2 answers for machines.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return stock.InstancesV2{Index: c.index, Report: c.nodes.Report}, true
}

// Instances answers for machines by name or provider ID alone. The stock
// controllers ask InstancesV2 instead.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) {
	return stock.Instances{InForce: &c.inForce}, true
}

// Zones answers where machines stand.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return stock.Zones{InForce: &c.inForce}, true }

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

var _ cloudprovider.PVLabeler = (*Cloud)(nil)

// GetLabelsForVolume returns region, zone and rack of a PersistentVolume; see
// [volume.Places.Labels].
func (c *Cloud) GetLabelsForVolume(_ context.Context, pv *v1.PersistentVolume) (map[string]string, error) {
	inv := c.inForce.Get()
	if inv == nil {
		return nil, nodeindex.ErrNoInventory
	}
	return c.places().Labels(inv, pv)
}

func (c *Cloud) places() volume.Places {
	return volume.Places{Nodes: c.nodeLister(), MachineOf: c.index.MachineOf}
}

// Clusters names the cluster.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return clusters{c}, true }

// clusters names the one cluster that there is.
type clusters struct{ cloud *Cloud }

// ListClusters returns the name of the inventory in force.
func (c clusters) ListClusters(context.Context) ([]string, error) {
	inv := c.cloud.inForce.Get()
	if inv == nil {
		return nil, nodeindex.ErrNoInventory
	}
	return []string{inv.Name}, nil
}

// Master returns where this program reaches the API server of the cluster.
func (c clusters) Master(ctx context.Context, name string) (string, error) {
	names, err := c.ListClusters(ctx)
	if err != nil {
		return "", err
	}
	if name != names[0] {
		return "", fmt.Errorf("there is no cluster %q, only %q", name, names[0])
	}
	return c.cloud.endpoint, nil
}
