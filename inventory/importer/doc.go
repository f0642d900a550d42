// Package importer writes an inventory from what other programs wrote down: MetalLB's resources, a cluster's Nodes, and others.
//
// It is pure: documents in, the text of an inventory and a list of notes out. Each source has a file of its own, which says of every
// field of an object what becomes of it: it is carried over, or noted, or without meaning. What no source speaks of is
// noted, so that nothing is dropped in silence.
package importer
