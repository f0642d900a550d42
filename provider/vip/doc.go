// Package vip gives Services of type LoadBalancer their VIPs. A Service comes in; the IPAddress
// object that claims a VIP, the Service's status and its Events go out. It is the only writer of
// a status.
//
// Four layers, each of which calls the one below and none above: environment says which Services
// are Plinth's; store has the state of package ipam under its lock, and makes the API server's
// claims agree with it; statuses writes what Services are told; [Controller] does the work, in a
// queue that is keyed by Service. What follows from a change of the state comes back as a value
// and is carried out by store: nothing calls into the state while it decides.
//
// In every path a status is cleared before its VIP is released, for kube-proxy serves what a
// status shows. What is written holds for the object as it was read and no other, so that a
// process that dies, or leads no more, between two writes leaves nothing that its successor
// cannot read from claims and statuses (TestALeaderThatDiesAfterAnyWriteLeavesWhatItsSuccessorEndsWith).
//
// Where to look: package ipam decides that a Service is pending, who gets what comes free, and
// which address is in quarantine. Here, load is the start of a leader, reconcile the work on one
// Service, assign its way to its VIPs, claims the writes of IPAddress objects, status and stale
// those of statuses, announcements which VIPs nobody announces, since when, and what of that is
// told, unannounced who finds it out and has it told, released what outlives the process, restore
// what a process does that learns that etcd was restored from a backup (it ends) and the one that
// leads next (it repairs), linked the answers to the stock service controller, which Plinth's own
// program does not run.
package vip
