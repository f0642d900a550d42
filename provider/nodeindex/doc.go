// Package nodeindex tells which machine of the inventory a Node is, and what can be told only by
// looking at all Nodes at once: whether another Node claims the same machine, whose pod CIDRs
// overlap, which Nodes and machines are unmatched.
//
// An [Index] is the only owner of that state. Two events change it, and nothing else: a Node
// was seen by the informer ([Index.Handler]), an inventory came into force ([Index.Reindex]).
// Whatever it answers was true a moment ago; who deletes something for it asks the API server
// again first.
package nodeindex
