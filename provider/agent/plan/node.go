package plan

import (
	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// Node is what the agent needs of a Node.
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
