package plan

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/directory"
	"plinth.dev/plinth/routing"
)

// Node is a Node of the cluster, reduced to the fields that the agent needs.
type Node struct {
	routing.Node
	Identity     inventory.NodeIdentity
	Excluded     bool // from external load balancers
	ShuttingDown bool // the machine, by its kubelet's word
	Condition    Condition
}

// Condition is the FabricReady condition as the Node bears it; zero: it has none.
type Condition struct {
	Ready           corev1.ConditionStatus
	Reason, Message string
}

// ShuttingDown is the message of a kubelet on a Node that is not ready because its machine is
// about to go (KEP-2000, graceful node shutdown), among other reasons if there are any.
const ShuttingDown = "node is shutting down"

// NodeOf reduces a *corev1.Node to the fields that the agent needs.
func NodeOf(obj any) Node {
	node := obj.(*corev1.Node)
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	out := Node{
		Node:     directory.NodeOf(node),
		Identity: inventory.NodeIdentity{ProviderID: node.Spec.ProviderID, SystemUUID: inventory.ReportedUUID(node.Status.NodeInfo.SystemUUID), Name: node.Name},
		Excluded: excluded,
	}
	for _, c := range node.Status.Conditions {
		switch c.Type {
		case lb.FabricReady:
			out.Condition = Condition{Ready: c.Status, Reason: c.Reason, Message: c.Message}
		case corev1.NodeReady:
			out.ShuttingDown = c.Status == corev1.ConditionFalse && strings.Contains(c.Message, ShuttingDown)
		default: // the kubelet's, or a stranger's
		}
	}
	return out
}
