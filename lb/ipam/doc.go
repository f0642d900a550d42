// Package ipam owns the state of VIPs: the holders of each, the pending Services, the addresses
// in quarantine, and those that are kept from all since a status shows them; and the reason of each denial.
//
// A [State] has a record for each address and each Service, and a [Ledger], by which [Allocate]
// decides. Its verbs take what happened (a Service asks, an IPAddress object is observed, a
// write failed) and return a decision, the next write, and [Effects]: Services to reconcile
// again, and the state to store. Nothing else changes it, and it calls no one. There is
// no I/O and no clock here: the caller that carries out decisions may die between any two writes, and
// loads a new State from the objects and statuses that there are.
//
// To change the choice of an address, see allocate; pending Services and offers to them, pending; the
// meaning of an object or of its absence, observe; the writes that hold or release, hold; stale
// statuses, shown.
package ipam
