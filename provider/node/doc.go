// Package node keeps labels, taints, provider ID and pod CIDRs of Nodes as the inventory wants
// them, and reports Nodes and machines that do not fit it.
//
// The flow: a Node changes, or an inventory comes into force; the Node's name is queued; sync
// asks package nodeindex which machine the Node is, works out what is [desired] of it, and
// applies the difference in one server-side apply. A Node that the stock node controller has
// yet to initialise is left to that: package stock passes its write to [Controller.Initialize].
// One label is a write of its own, for Nodes that are no machines bear it, too: that a pool has addresses of the Node.
// The stock controller also keeps the addresses of Nodes, from the answers of package stock.
//
// State: all that must survive is on the Node itself. Which fields are Plinth's, its managed
// fields say; which taints are, labels that a kubelet cannot write (see taints). In memory are
// the queue, the Events that were sent (package event), and the taints that the inventories of
// this process wanted. So a process may die between any two writes.
//
// What may be touched: a patch holds for the Node as it was read (uid and resourceVersion), says
// all that Plinth owns, since what is left out is removed, and never a label or taint of others.
package node
