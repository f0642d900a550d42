package stock

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/nodeindex"
)

// Instances answers for machines by name or provider ID alone, from the same inventory. The
// stock controllers ask [InstancesV2] instead. With this interface
// cloudprovider.InstanceNotFound deletes a Node, so only a retired machine is not found.
type Instances struct{ InForce *source.InForce }

var _ cloudprovider.Instances = Instances{}

// byName returns the machine of a Node of that name.
func (i Instances) byName(name types.NodeName) (*inventory.Inventory, inventory.Machine, error) {
	return i.find(inventory.NodeIdentity{Name: string(name)})
}

// byProviderID returns the machine with that provider ID or alias.
func (i Instances) byProviderID(providerID string) (*inventory.Inventory, inventory.Machine, error) {
	return i.find(inventory.NodeIdentity{ProviderID: providerID})
}

func (i Instances) find(id inventory.NodeIdentity) (*inventory.Inventory, inventory.Machine, error) {
	inv := i.InForce.Get()
	m, err := nodeindex.Match(inv, id)
	if err != nil {
		return inv, m, fmt.Errorf("%s%s: %w", id.Name, id.ProviderID, err)
	}
	if m.State == inventory.StateRetired && !m.Held {
		return inv, m, cloudprovider.InstanceNotFound
	}
	return inv, m, nil
}

// NodeAddresses returns the addresses of a machine.
func (i Instances) NodeAddresses(_ context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	_, m, err := i.byName(name)
	return addresses(m), err
}

// NodeAddressesByProviderID returns the addresses of a machine.
func (i Instances) NodeAddressesByProviderID(_ context.Context, providerID string) ([]v1.NodeAddress, error) {
	_, m, err := i.byProviderID(providerID)
	return addresses(m), err
}

// InstanceID returns the provider ID without its scheme.
func (i Instances) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	_, m, err := i.byName(name)
	if err != nil {
		return "", err
	}
	return m.ID, nil
}

// InstanceType returns the type of a machine.
func (i Instances) InstanceType(_ context.Context, name types.NodeName) (string, error) {
	_, m, err := i.byName(name)
	return m.Type, err
}

// InstanceTypeByProviderID returns the type of a machine.
func (i Instances) InstanceTypeByProviderID(_ context.Context, providerID string) (string, error) {
	_, m, err := i.byProviderID(providerID)
	return m.Type, err
}

// AddSSHKeyToAllInstances is not Plinth's to do: it logs in nowhere.
func (i Instances) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName returns the name of the machine with that host name.
func (i Instances) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	inv := i.InForce.Get()
	if inv == nil {
		return "", nodeindex.ErrNoInventory
	}
	if m, ok := inv.Machine(hostname); ok {
		return types.NodeName(m.Name), nil
	}
	for _, rack := range inv.Racks {
		for _, m := range rack.Machines {
			if m.Hostname == hostname {
				return types.NodeName(m.Name), nil
			}
		}
	}
	return "", fmt.Errorf("host name %s: %w", hostname, inventory.ErrNoMachine)
}

// InstanceExistsByProviderID is false for a retired machine alone.
func (i Instances) InstanceExistsByProviderID(_ context.Context, providerID string) (bool, error) {
	return exists(nodeindex.Match(i.InForce.Get(), inventory.NodeIdentity{ProviderID: providerID}))
}

// InstanceShutdownByProviderID is true for a machine that is off.
func (i Instances) InstanceShutdownByProviderID(_ context.Context, providerID string) (bool, error) {
	return shutdown(nodeindex.Match(i.InForce.Get(), inventory.NodeIdentity{ProviderID: providerID}))
}
