// Package leader keeps a process from writing that may lead no more, and has one that is asked to
// end hand over to the next.
//
// The framework elects the leader: it renews a Lease, and ends the process where it cannot. A
// [SelfFence] is around the transport of every client that controllers write with, so that
// whatever they do after that, nothing is sent. [HandOver] gives up the lease, which the
// framework does not: first the fence is closed, then what is in flight is answered, then the
// lease is free. In any other order a late write of the one that ends could follow a write of
// the one that leads.
package leader
