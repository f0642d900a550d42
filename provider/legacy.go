package provider

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
)

// legacy answers the older Instances from the same inventory. With this
// interface cloudprovider.InstanceNotFound deletes a Node, so only a retired
// machine is not found.
type legacy struct{ cloud *Cloud }

var _ cloudprovider.Instances = legacy{}

// Instances answers for machines by name or provider ID alone. The stock
// controllers ask InstancesV2 instead.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return legacy{c}, true }

// byName returns the machine of a Node of that name.
func (l legacy) byName(name types.NodeName) (*inventory.Inventory, inventory.Machine, error) {
	return l.find(inventory.NodeIdentity{Name: string(name)})
}

// byProviderID returns the machine with that provider ID or alias.
func (l legacy) byProviderID(providerID string) (*inventory.Inventory, inventory.Machine, error) {
	return l.find(inventory.NodeIdentity{ProviderID: providerID})
}

func (l legacy) find(id inventory.NodeIdentity) (*inventory.Inventory, inventory.Machine, error) {
	inv := l.cloud.inventory()
	m, err := match(inv, id)
	if err != nil {
		return inv, m, fmt.Errorf("%s%s: %w", id.Name, id.ProviderID, err)
	}
	if m.State == inventory.StateRetired && !m.Held {
		return inv, m, cloudprovider.InstanceNotFound
	}
	return inv, m, nil
}

// NodeAddresses returns the addresses of a machine.
func (l legacy) NodeAddresses(_ context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	_, m, err := l.byName(name)
	return addresses(m), err
}

// NodeAddressesByProviderID returns the addresses of a machine.
func (l legacy) NodeAddressesByProviderID(_ context.Context, providerID string) ([]v1.NodeAddress, error) {
	_, m, err := l.byProviderID(providerID)
	return addresses(m), err
}

// InstanceID returns the provider ID without its scheme.
func (l legacy) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	_, m, err := l.byName(name)
	if err != nil {
		return "", err
	}
	return m.ID, nil
}

// InstanceType returns the type of a machine.
func (l legacy) InstanceType(_ context.Context, name types.NodeName) (string, error) {
	_, m, err := l.byName(name)
	return m.Type, err
}

// InstanceTypeByProviderID returns the type of a machine.
func (l legacy) InstanceTypeByProviderID(_ context.Context, providerID string) (string, error) {
	_, m, err := l.byProviderID(providerID)
	return m.Type, err
}

// AddSSHKeyToAllInstances is not Plinth's to do: it logs in nowhere.
func (l legacy) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName returns the name of the machine with that host name.
func (l legacy) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	inv := l.cloud.inventory()
	if inv == nil {
		return "", errNoInventory
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
func (l legacy) InstanceExistsByProviderID(_ context.Context, providerID string) (bool, error) {
	return exists(match(l.cloud.inventory(), inventory.NodeIdentity{ProviderID: providerID}))
}

// InstanceShutdownByProviderID is true for a machine that is off.
func (l legacy) InstanceShutdownByProviderID(_ context.Context, providerID string) (bool, error) {
	return shutdown(match(l.cloud.inventory(), inventory.NodeIdentity{ProviderID: providerID}))
}
