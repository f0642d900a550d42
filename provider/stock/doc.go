// Package stock is the view that the stock controllers of k8s.io/cloud-provider which still run (node,
// lifecycle and route) have of the cluster, and the clients that they write with.
//
// They ask a cloud: [InstancesV2] which machine a Node is, [Routes] which pods can be reached.
// All answers come from the inventory in force and the informer of Nodes, and never block.
// Where the inventory does not know, the answer is an error, because "no" deletes a Node.
//
// They write through clients of this package, which belong to it alone: nodeInitClient has a
// Node initialised by one write of package node; verifyingCloud and preconditionClient have a
// Node deleted only as it was read a moment ago; pendingRoutes shows the route controller only
// what it has something to do for. None of these keeps what must outlive the process.
//
// Before a change: read what the stock controller does with an answer (its module is pinned in
// go.mod). docs/reference/cloud-provider.md has a table of all answers, which a test of package
// provider keeps true.
package stock
