package provider

import (
	"context"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"
)

// clusters names the one cluster that there is.
type clusters struct{ cloud *Cloud }

var _ cloudprovider.Clusters = clusters{}

// Clusters names the cluster.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return clusters{c}, true }

// ListClusters returns the name of the inventory in force.
func (c clusters) ListClusters(context.Context) ([]string, error) {
	inv := c.cloud.inventory()
	if inv == nil {
		return nil, errNoInventory
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
