// Package ipam owns the state of VIPs: which Service holds which, who is pending, which address
// is in quarantine, and which is kept from all since a status shows it. It says why not, too.
//
// A [State] has a record for each address and each Service, and a [Ledger], by which [Allocate]
// decides. Its verbs take what happened (a Service asks, an IPAddress object is observed, a
// write failed) and return a decision, the next write, and [Effects]: Services to be looked at
// again, and what is to be written down. Nothing else changes it, and it calls nobody. There is
// no I/O and no clock here: who carries out what is decided may die between any two writes, and
// loads a new State from the objects and statuses that there are.
//
// To change what is given to whom, see allocate; who waits and is offered what, pending; what
// an object or its absence means, observe; what is written to hold or release, hold; stale
// statuses, shown.
package ipam
