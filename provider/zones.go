package provider

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// zones answers where machines stand. Nothing in Kubernetes asks it while there
// is InstancesV2.
type zones struct{ cloud *Cloud }

var _ cloudprovider.Zones = zones{}

// Zones answers where machines stand.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return zones{c}, true }

// GetZone returns the zone of the machine that this program runs on.
func (z zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	name, err := legacy(z).CurrentNodeName(ctx, hostname)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.GetZoneByNodeName(ctx, name)
}

// GetZoneByProviderID returns the zone of a machine.
func (z zones) GetZoneByProviderID(_ context.Context, providerID string) (cloudprovider.Zone, error) {
	inv, m, err := legacy(z).byProviderID(providerID)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return zoneOf(inv, m), nil
}

// GetZoneByNodeName returns the zone of a machine.
func (z zones) GetZoneByNodeName(_ context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	inv, m, err := legacy(z).byName(name)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return zoneOf(inv, m), nil
}
