package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// errNoInventory is the answer to every question until an inventory is in force.
var errNoInventory = errors.New("no inventory is in force yet")

// sharedMachineError means that several Nodes say that they are one machine.
type sharedMachineError struct {
	machine string
	nodes   []string // sorted
}

func (e *sharedMachineError) Error() string {
	return fmt.Sprintf("machine %s is claimed by the nodes %s", e.machine, strings.Join(e.nodes, ", "))
}

// identity is what a Node says about which machine it is.
func identity(node *v1.Node) inventory.NodeIdentity {
	return inventory.NodeIdentity{
		ProviderID: node.Spec.ProviderID,
		SystemUUID: node.Status.NodeInfo.SystemUUID,
		Name:       node.Name,
	}
}

// ours reports whether a provider ID is one that Plinth gave.
func ours(providerID string) bool {
	return strings.HasPrefix(providerID, inventory.ProviderScheme+"://")
}

// machineOf returns the machine that a Node is, and the inventory that says so.
// An error that is [inventory.ErrNoMachine] means that the Node is none of ours;
// any other that it cannot be told, and must be left alone.
func (c *Cloud) machineOf(node *v1.Node) (*inventory.Inventory, inventory.Machine, error) {
	inv := c.inventory()
	m, err := match(inv, identity(node))
	if err != nil {
		return inv, m, fmt.Errorf("node %s: %w", node.Name, err)
	}
	if nodes := c.roster.claimants(m.Name, node.Name); len(nodes) > 1 {
		return inv, inventory.Machine{}, &sharedMachineError{machine: m.Name, nodes: nodes}
	}
	return inv, m, nil
}

// match finds the machine of an identity. An ID that Plinth gave is never
// overruled by a name or UUID: a machine whose name was used before must not
// inherit the Node of the other.
func match(inv *inventory.Inventory, id inventory.NodeIdentity) (inventory.Machine, error) {
	if inv == nil {
		return inventory.Machine{}, errNoInventory
	}
	if id == (inventory.NodeIdentity{}) {
		return inventory.Machine{}, errors.New("it says nothing of itself")
	}
	m, err := inv.MachineOf(id)
	switch {
	case errors.Is(err, inventory.ErrNoMachine) && ours(id.ProviderID):
		return inventory.Machine{}, fmt.Errorf("its provider ID %s is of no machine of the inventory", id.ProviderID)
	case err != nil:
		return inventory.Machine{}, err
	case ours(id.ProviderID) && id.ProviderID != m.ProviderID() && !slices.Contains(m.Aliases, id.ProviderID):
		return inventory.Machine{}, fmt.Errorf("its provider ID is %s, that of machine %s is %s", id.ProviderID, m.Name, m.ProviderID())
	}
	return m, nil
}
