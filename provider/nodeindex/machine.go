package nodeindex

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	api "k8s.io/cloud-provider/api"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// ErrNoInventory is the answer to every question until an inventory is in force.
var ErrNoInventory = errors.New("no inventory is in force yet")

// claimedError means that a Node claims a machine that is another Node's, or could be.
type claimedError struct {
	machine string
	node    string   // which machine that is, is asked
	nodes   []string // whose the machine could be, sorted
}

// Error says what to do about it: a machine that has another name now has left the Node of
// its former name behind.
func (e *claimedError) Error() string {
	if !slices.Contains(e.nodes, e.node) {
		return fmt.Sprintf("node %s reports the system UUID of machine %s, which by provider ID or name is %s: write the machine's own into match: {systemUUID: ...}, or delete the node that it is not",
			e.node, e.machine, strings.Join(e.nodes, ", "))
	}
	text := fmt.Sprintf("machine %s is claimed by the nodes %s", e.machine, strings.Join(e.nodes, ", "))
	if others := slices.DeleteFunc(slices.Clone(e.nodes), func(n string) bool { return n == e.machine }); len(others) < len(e.nodes) {
		return fmt.Sprintf("%s: if %s is its name now, run: kubectl delete node %s", text, e.machine, strings.Join(others, " "))
	}
	return text + ": delete those that it is not"
}

// Identity is what a Node says about which machine it is.
func Identity(node *v1.Node) inventory.NodeIdentity {
	return inventory.NodeIdentity{
		ProviderID: node.Spec.ProviderID,
		SystemUUID: inventory.ReportedUUID(node.Status.NodeInfo.SystemUUID),
		Name:       node.Name,
	}
}

// State is what a Node shows of its machine.
func State(node *v1.Node) inventory.NodeState {
	return inventory.NodeState{
		NodeIdentity: Identity(node), Volumes: len(node.Status.VolumesAttached),
		NodeIPs: node.Annotations[api.AnnotationAlphaProvidedIPAddr], PodCIDRs: routing.ParsePodCIDRs(node.Spec.PodCIDRs),
		Ready: slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
		}),
		OutOfService: slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == inventory.OutOfServiceTaint }),
	}
}

// Match finds the machine of an identity, whoever else claims it. Without an inventory the
// error is [ErrNoInventory].
func Match(inv *inventory.Inventory, id inventory.NodeIdentity) (inventory.Machine, error) {
	if inv == nil {
		return inventory.Machine{}, ErrNoInventory
	}
	return inv.Identify(id)
}

// Expected says why a machine should have no Node; nil where it should.
func Expected(m inventory.Machine) error {
	switch m.State {
	case inventory.StateRetired:
		return fmt.Errorf("machine %s is retired: %w", m.Name, cloudprovider.InstanceNotFound)
	case inventory.StatePlanned:
		return fmt.Errorf("machine %s is planned: set its state to active when it may join", m.Name)
	default:
		return nil
	}
}
