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

// Error has the next step in it: a machine that has another name now has left the Node of
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

// Identity returns the identity that a Node reports of its machine.
func Identity(node *v1.Node) inventory.NodeIdentity {
	return inventory.NodeIdentity{
		ProviderID: node.Spec.ProviderID,
		SystemUUID: inventory.ReportedUUID(node.Status.NodeInfo.SystemUUID),
		Name:       node.Name,
	}
}

// isReady reports whether the kubelet of a Node says that it is ready.
func isReady(node *v1.Node) bool { return readiness(node) == v1.ConditionTrue }

// SaysAlike reports whether what two versions of a Node say of its kubelet, and of its board, makes the same of other Nodes.
func SaysAlike(a, b *v1.Node) bool {
	return isSilent(a) == isSilent(b) && Identity(a).SystemUUID == Identity(b).SystemUUID
}

// isSilent reports whether the kubelet of a Node is known to have fallen silent: what the Node says is of another time, as that of a
// machine whose Node has another name now.
func isSilent(node *v1.Node) bool { return readiness(node) == v1.ConditionUnknown }

// readiness returns the status of the condition Ready of a Node; empty: it has none yet.
func readiness(node *v1.Node) v1.ConditionStatus { return Condition(node, v1.NodeReady).Status }

// Condition returns a Node's condition of a type; its zero value where there is none.
func Condition(node *v1.Node, kind v1.NodeConditionType) v1.NodeCondition {
	condition, _ := inventory.Find(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == kind })
	return condition
}

// Identities returns the identities that Nodes report of their machines, where these are all Nodes.
func Identities(nodes []*v1.Node) []inventory.NodeIdentity {
	all, reporting := make([]inventory.NodeIdentity, len(nodes)), map[inventory.UUID]int{}
	for i, n := range nodes {
		all[i] = Identity(n)
		if !isSilent(n) {
			reporting[all[i].SystemUUID]++
		}
	}
	for i, n := range nodes {
		others := reporting[all[i].SystemUUID]
		if !isSilent(n) {
			others--
		}
		all[i].UUIDShared = others > 0 && !all[i].SystemUUID.IsZero()
	}
	return all
}

// State returns the state of a Node as its object shows it.
func State(node *v1.Node) inventory.NodeState {
	return inventory.NodeState{
		NodeIdentity: Identity(node), Volumes: len(node.Status.VolumesAttached),
		NodeIPs: node.Annotations[api.AnnotationAlphaProvidedIPAddr], PodCIDRs: routing.ParsePodCIDRs(node.Spec.PodCIDRs),
		Ready:        isReady(node),
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

// Expected returns the reason, as an error, for which a machine should have no Node; nil where it should have one.
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
