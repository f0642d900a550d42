package stock

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory/source"
)

// Zones answers where machines stand. Nothing in Kubernetes asks it while there
// is InstancesV2.
type Zones struct{ InForce *source.InForce }

var _ cloudprovider.Zones = Zones{}

// GetZone returns the zone of the machine that this program runs on.
func (z Zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	name, err := Instances(z).CurrentNodeName(ctx, hostname)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.GetZoneByNodeName(ctx, name)
}

// GetZoneByProviderID returns the zone of a machine.
func (z Zones) GetZoneByProviderID(_ context.Context, providerID string) (cloudprovider.Zone, error) {
	inv, m, err := Instances(z).byProviderID(providerID)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return zoneOf(inv, m), nil
}

// GetZoneByNodeName returns the zone of a machine.
func (z Zones) GetZoneByNodeName(_ context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	inv, m, err := Instances(z).byName(name)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return zoneOf(inv, m), nil
}
