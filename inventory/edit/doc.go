// Package edit says what an edit of the inventory does, and what becomes of it: what it changes ([Diff]), what is to be in force
// after it ([Admit]), what it takes away ([LossesOf]) and whether that may be ([Losses.Refuse]), which sessions it gives other
// terms ([RetermedBy]) and the machines that try these first ([Trial]).
//
// [Decide] puts all of that together: an edit, the inventory in force and what was found out of the cluster in, a [Verdict]
// out. A [Life] is how far one edit has come, and phase.go has the table of what may follow what.
//
// It is pure: values in, values out. What becomes of a cluster, its VIPs, Nodes and pods, is found out by package preview
// and handed in as [Evidence]; package source writes what was decided.
package edit
