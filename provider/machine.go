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

// Error says what to do about it: a machine that has another name now has left the Node of
// its former name behind.
func (e *sharedMachineError) Error() string {
	text := fmt.Sprintf("machine %s is claimed by the nodes %s", e.machine, strings.Join(e.nodes, ", "))
	if others := slices.DeleteFunc(slices.Clone(e.nodes), func(n string) bool { return n == e.machine }); len(others) < len(e.nodes) {
		return fmt.Sprintf("%s: if %s is its name now, run: kubectl delete node %s", text, e.machine, strings.Join(others, " "))
	}
	return text + ": delete those that it is not"
}

// identity is what a Node says about which machine it is.
func identity(node *v1.Node) inventory.NodeIdentity {
	return inventory.NodeIdentity{
		ProviderID: node.Spec.ProviderID,
		SystemUUID: node.Status.NodeInfo.SystemUUID,
		Name:       node.Name,
	}
}

// stateOf is what a Node shows of its machine.
func stateOf(node *v1.Node) inventory.NodeState {
	return inventory.NodeState{
		NodeIdentity: identity(node), Ready: ready(node), Volumes: len(node.Status.VolumesAttached),
		OutOfService: slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == inventory.OutOfServiceTaint }),
	}
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

// match finds the machine of an identity.
func match(inv *inventory.Inventory, id inventory.NodeIdentity) (inventory.Machine, error) {
	if inv == nil {
		return inventory.Machine{}, errNoInventory
	}
	if id == (inventory.NodeIdentity{}) {
		return inventory.Machine{}, errors.New("it says nothing of itself")
	}
	return inv.Identify(id)
}
