package stock

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/nodeindex"
)

// InstancesV2 answers for Nodes. No answer of its ever blocks.
type InstancesV2 struct {
	Index  *nodeindex.Index
	Report func(node *v1.Node, m inventory.Machine, err error) // told which machine a Node is, or why none
}

var _ cloudprovider.InstancesV2 = InstancesV2{}

// InstanceExists is false for a machine that is retired, and for nothing else:
// with "false" the lifecycle controller deletes a Node that is not Ready within
// seconds. An error protects it.
func (i InstancesV2) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	_, machine, err := i.Index.MachineOf(node)
	switch {
	case errors.Is(err, inventory.ErrNoMachine):
		return true, nil // none of ours
	case err != nil:
		return false, err
	case machine.Held:
		return false, fmt.Errorf("machine %s is no longer mentioned in the inventory and is held; state: retired would let it go", machine.Name)
	}
	return machine.State != inventory.StateRetired, nil
}

// InstanceShutdown is true for a machine that is off.
func (i InstancesV2) InstanceShutdown(_ context.Context, node *v1.Node) (bool, error) {
	_, machine, err := i.Index.MachineOf(node)
	switch {
	case errors.Is(err, inventory.ErrNoMachine):
		return false, nil // none of ours
	case err != nil:
		return false, err
	}
	return machine.State == inventory.StateOff, nil
}

// InstanceMetadata returns the inventory's metadata of a Node. It is never nil
// without an error: the stock controller would take the whole process down.
func (i InstancesV2) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	inv, machine, err := i.Index.MachineOf(node)
	i.Report(node, machine, err)
	if err != nil {
		return nil, err
	}
	if err := nodeindex.Expected(machine); err != nil {
		return nil, err
	}
	return metadata(inv, machine, node.Spec.ProviderID), nil
}

// metadata describes a machine. A provider ID that the Node has stays.
func metadata(inv *inventory.Inventory, machine inventory.Machine, providerID string) *cloudprovider.InstanceMetadata {
	if providerID == "" {
		providerID = machine.ProviderID()
	}
	rack, _ := inv.Rack(machine.Rack)
	return &cloudprovider.InstanceMetadata{
		ProviderID:    providerID,
		InstanceType:  machine.Type,
		NodeAddresses: addresses(machine),
		Zone:          rack.Zone,
		Region:        inv.Region,
	}
}

// addresses of a machine, in its order of preference. Without a host name of
// the inventory the stock controller keeps the kubelet's.
func addresses(machine inventory.Machine) []v1.NodeAddress {
	var out []v1.NodeAddress
	for _, a := range machine.Addresses {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a.String()})
	}
	for _, a := range machine.ExternalAddresses {
		out = append(out, v1.NodeAddress{Type: v1.NodeExternalIP, Address: a.String()})
	}
	if machine.Hostname != "" {
		out = append(out, v1.NodeAddress{Type: v1.NodeHostName, Address: machine.Hostname})
	}
	return out
}
