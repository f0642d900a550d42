package stock

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/nodeindex"
)

// Instances is the interface of before InstancesV2: it answers questions by the name of a Node or by a provider ID. Each
// answer is the one of [InstancesV2] for the Node in question; where no Node is there yet, for one that says nothing else of
// itself. A provider ID that several Nodes have is an error, and so is every question until the Nodes were listed.
type Instances struct{ Index *nodeindex.Index }

var _ cloudprovider.Instances = Instances{}

// v2 tells nobody which machine a Node is: to ask does not change what is known of it.
func (i Instances) v2() InstancesV2 {
	return InstancesV2{Index: i.Index, Report: func(*v1.Node, inventory.Machine, error) {}}
}

// of is the metadata of a Node, or the error with which it was looked for.
func (i Instances) of(ctx context.Context, node *v1.Node, err error) (cloudprovider.InstanceMetadata, error) {
	if err != nil {
		return cloudprovider.InstanceMetadata{}, err
	}
	m, err := i.v2().InstanceMetadata(ctx, node)
	if err != nil {
		return cloudprovider.InstanceMetadata{}, err
	}
	return *m, nil
}

func (i Instances) named(ctx context.Context, name types.NodeName) (cloudprovider.InstanceMetadata, error) {
	node, err := i.Index.NodeNamed(string(name))
	return i.of(ctx, node, err)
}

func (i Instances) with(ctx context.Context, providerID string) (cloudprovider.InstanceMetadata, error) {
	node, err := i.Index.NodeWith(providerID)
	return i.of(ctx, node, err)
}

// NodeAddresses returns the addresses of a Node's machine, in its order of preference.
func (i Instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	m, err := i.named(ctx, name)
	return m.NodeAddresses, err
}

// NodeAddressesByProviderID is [Instances.NodeAddresses] by provider ID.
func (i Instances) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]v1.NodeAddress, error) {
	m, err := i.with(ctx, providerID)
	return m.NodeAddresses, err
}

// InstanceID returns the ID of a Node's machine, before which [cloudprovider.GetInstanceProviderID] puts plinth://. Of a Node
// that was adopted with another provider ID, an alias of the machine, it is the ID that it would have got.
func (i Instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	node, err := i.Index.NodeNamed(string(name))
	if _, err := i.of(ctx, node, err); err != nil {
		return "", err
	}
	_, m, err := i.Index.MachineOf(node)
	return m.ID, err
}

// InstanceType returns the type of a Node's machine; empty where the inventory gives none.
func (i Instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	m, err := i.named(ctx, name)
	return m.InstanceType, err
}

// InstanceTypeByProviderID is [Instances.InstanceType] by provider ID.
func (i Instances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	m, err := i.with(ctx, providerID)
	return m.InstanceType, err
}

// InstanceExistsByProviderID is [InstancesV2.InstanceExists] by provider ID.
func (i Instances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	node, err := i.Index.NodeWith(providerID)
	if err != nil {
		return false, err
	}
	return i.v2().InstanceExists(ctx, node)
}

// InstanceShutdownByProviderID is [InstancesV2.InstanceShutdown] by provider ID.
func (i Instances) InstanceShutdownByProviderID(ctx context.Context, providerID string) (bool, error) {
	node, err := i.Index.NodeWith(providerID)
	if err != nil {
		return false, err
	}
	return i.v2().InstanceShutdown(ctx, node)
}

// AddSSHKeyToAllInstances is not implemented: Plinth logs in nowhere.
func (i Instances) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName returns the name of the Node of the machine that has a host name; where the machine has no Node, the name
// that its kubelet is to register it under.
func (i Instances) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	name, err := i.Index.NodeOfHost(hostname)
	return types.NodeName(name), err
}

// Zones answers where a Node is, as [InstancesV2] does in its metadata.
type Zones struct {
	Instances Instances
	Here      func() (string, error) // the name or host name of the machine that this process runs on
}

var _ cloudprovider.Zones = Zones{}

// GetZone returns the zone of the machine that this process runs on. In a pod without the network of its host it is not
// known unless $NODE_NAME says it.
func (z Zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	here, err := z.Here()
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	name, err := z.Instances.CurrentNodeName(ctx, here)
	if err != nil {
		return cloudprovider.Zone{}, fmt.Errorf("it is not known which machine this process runs on; $NODE_NAME can say it: %w", err)
	}
	return z.GetZoneByNodeName(ctx, name)
}

// GetZoneByProviderID returns the zone of the machine that has a provider ID.
func (z Zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	m, err := z.Instances.with(ctx, providerID)
	return cloudprovider.Zone{FailureDomain: m.Zone, Region: m.Region}, err
}

// GetZoneByNodeName returns the zone of a Node's machine.
func (z Zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	m, err := z.Instances.named(ctx, name)
	return cloudprovider.Zone{FailureDomain: m.Zone, Region: m.Region}, err
}

// Clusters knows the one cluster that the inventory in force is of.
type Clusters struct{ Index *nodeindex.Index }

var _ cloudprovider.Clusters = Clusters{}

// ListClusters returns the name of the inventory.
func (c Clusters) ListClusters(context.Context) ([]string, error) {
	inv := c.Index.InForce()
	if inv == nil {
		return nil, nodeindex.ErrNoInventory
	}
	return []string{inv.Name}, nil
}

// Master is not implemented: an inventory does not say which machines are of the control plane.
func (c Clusters) Master(context.Context, string) (string, error) {
	return "", cloudprovider.NotImplemented
}
