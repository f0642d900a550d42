// Package directory stores which Nodes there are, as the agents of other machines need them, so that no agent has to follow Nodes.
//
// An API server holds each write of a Node against each watch of Nodes that selects by label. Kubelets write theirs every five minutes
// though nothing changes, so that agents that all have such a watch cost what grows with the square of the Nodes. What other
// machines need of a Node hardly ever changes: its addresses, its pod CIDRs, and its rack.
//
// A ConfigMap for each rack, a [Page], has that of its Nodes, and one, the [Index], names the pages, and has the Nodes with addresses in pools.
// The [Controller], which runs on the leader alone, keeps both as the Nodes are. Agents follow the index, and the pages of the racks around them; where the
// index or one of these is missing, or cannot be read, they follow Nodes themselves.
//
// So nothing that is stored may be older than the Nodes are for long. A controller of a version without this package deletes the
// ConfigMaps once it has taken up what was accepted, as it does with all that bear `plinth.dev/accepted` and that it does not know. Before you
// change what is stored, mind that
//
//   - a page is there before the index names it, and until it does not, and a Node that moves is in a page all the time;
//   - all of it is made of the Nodes alone, so that whoever leads next makes the same of them;
//   - other versions read it (TestTheFormatIsKept, and docs/reference/skew.md).
package directory
