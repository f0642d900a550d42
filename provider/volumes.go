package provider

import (
	"context"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/provider/volume"
)

var _ cloudprovider.PVLabeler = (*Cloud)(nil)

// GetLabelsForVolume returns region, zone and rack of a PersistentVolume; see
// [volume.Places.Labels].
func (c *Cloud) GetLabelsForVolume(_ context.Context, pv *v1.PersistentVolume) (map[string]string, error) {
	inv := c.inventory()
	if inv == nil {
		return nil, errNoInventory
	}
	return c.places().Labels(inv, pv)
}

func (c *Cloud) places() volume.Places {
	return volume.Places{Nodes: c.nodes, MachineOf: c.machineOf}
}

// startVolumeController starts the controller of PersistentVolumes.
func startVolumeController(ctx context.Context, c *Cloud, _ start) error {
	controller := &volume.Controller{Places: c.places(), InForce: &c.inForce, Client: c.client, Log: c.log}
	return controller.Start(ctx, c.informers)
}
