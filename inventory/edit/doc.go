// Package edit says what an edit of the inventory does: what it changes ([Diff]), what is to be in force after it ([Admit]),
// what it takes away ([LossesOf]) and whether that may be ([Losses.Refuse]), and which sessions it gives other terms
// ([RetermedBy]).
//
// It is pure: two inventories in, a value or a list of problems out. What becomes of a cluster, its VIPs, Nodes and pods, is
// found out by package preview and handed in.
package edit
