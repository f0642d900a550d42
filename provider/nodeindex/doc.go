// Package nodeindex tells which machine of the inventory a Node is, and what can be told only by
// looking at all Nodes at once: whether another Node claims the same machine, whose pod CIDRs
// overlap, which Nodes and machines are unmatched.
//
// An [Index] reads the store of the informer of all Nodes, and the inventory in force
// ([Index.Reindex]). Whatever it answers was true a moment ago; who deletes something for it asks
// the API server again first.
package nodeindex
