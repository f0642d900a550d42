package nodeindex

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// errNodesUnknown is the answer to questions by name and ID until all Nodes were listed: one that is there would be missed.
var errNodesUnknown = errors.New("the Nodes have not been listed yet")

// InForce returns the inventory in force; nil where none is.
func (x *Index) InForce() *inventory.Inventory { return x.inventory.Load() }

// known returns the inventory in force, once all Nodes are known, too.
func (x *Index) known() (*inventory.Inventory, error) {
	inv := x.inventory.Load()
	switch {
	case inv == nil:
		return nil, ErrNoInventory
	case x.nodes == nil || !x.synced():
		return nil, errNodesUnknown
	}
	return inv, nil
}

// NodeNamed returns the Node of a name; where none is there yet, one that says nothing else of itself.
func (x *Index) NodeNamed(name string) (*v1.Node, error) {
	if _, err := x.known(); err != nil {
		return nil, err
	}
	if node, ok := x.node(name); ok {
		return node, nil
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (x *Index) node(name string) (*v1.Node, bool) {
	o, ok, err := x.nodes.GetByKey(name)
	if err != nil || !ok {
		return nil, false
	}
	return o.(*v1.Node), true
}

// NodeWith returns the Node that has a provider ID, or else the one that is the machine of that ID, or that may be; where
// none is there yet, one that says nothing else of itself. Where several have the ID, what is said of one is not true of
// another, and there is an error.
func (x *Index) NodeWith(providerID string) (*v1.Node, error) {
	inv, err := x.known()
	if err != nil {
		return nil, err
	}
	if providerID == "" {
		return nil, errors.New("no provider ID is given")
	}
	holders, _ := x.nodes.ByIndex(byProviderID, providerID) // an index that there is returns no error
	switch len(holders) {
	case 0:
	case 1:
		return holders[0].(*v1.Node), nil
	default:
		return nil, fmt.Errorf("the nodes %s have the provider ID %s: delete those that it is not of", strings.Join(namesOf(nodesIn(holders)), ", "), providerID)
	}
	none := &v1.Node{Spec: v1.NodeSpec{ProviderID: providerID}}
	machine, err := Match(inv, inventory.NodeIdentity{ProviderID: providerID})
	if err != nil {
		return none, nil // MachineOf says the same of it
	}
	if node, err := x.nodeOf(inv, machine); node != nil || err != nil {
		return node, err
	}
	for _, n := range x.candidates(machine) {
		var either *inventory.AmbiguousError
		if _, err := Match(inv, x.identity(n)); errors.As(err, &either) {
			return n, nil // and MachineOf says that it may be another
		}
	}
	return none, nil
}

// nodesIn are the Nodes of an index, by name.
func nodesIn(found []any) (nodes []*v1.Node) {
	for _, o := range found {
		nodes = append(nodes, o.(*v1.Node))
	}
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

func namesOf(nodes []*v1.Node) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

// nodeOf returns the Node of a machine; nil where there is none, and an error where it could be one of several.
func (x *Index) nodeOf(inv *inventory.Inventory, machine inventory.Machine) (*v1.Node, error) {
	switch nodes := x.nodesClaiming(inv, machine); len(nodes) {
	case 0:
		return nil, nil
	case 1:
		return nodes[0], nil
	default:
		return nil, &claimedError{machine: machine.Name, node: nodes[0].Name, nodes: namesOf(nodes)}
	}
}

// NodeOfHost returns the name of the Node that is called so, or whose machine is, or has that host name. A machine without a
// Node has its own name. The error is [inventory.ErrNoMachine] where no machine has it.
func (x *Index) NodeOfHost(hostname string) (string, error) {
	inv, err := x.known()
	if err != nil {
		return "", err
	}
	if node, ok := x.node(hostname); ok {
		return node.Name, nil
	}
	machine, err := machineOfHost(inv, hostname)
	if err != nil {
		return "", err
	}
	node, err := x.nodeOf(inv, machine)
	if node == nil {
		return machine.Name, err
	}
	return node.Name, err
}

func machineOfHost(inv *inventory.Inventory, hostname string) (inventory.Machine, error) {
	if m, ok := inv.Machine(hostname); ok {
		return m, nil
	}
	var found []inventory.Machine
	for m := range inv.Machines() {
		if m.Hostname == hostname {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return inventory.Machine{}, fmt.Errorf("host %s: %w", hostname, inventory.ErrNoMachine)
	case 1:
		return found[0], nil
	}
	return inventory.Machine{}, fmt.Errorf("the machines %s and %s have the host name %s", found[0].Name, found[1].Name, hostname)
}
