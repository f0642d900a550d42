// Package vip gives Services of type LoadBalancer their VIPs. A Service comes in; the IPAddress
// object that claims a VIP, the Service's status and its Events go out.
//
// A [Controller] has the state, in package ipam's ledger and beside it, and is the only
// writer of a status. In every path a status is cleared before its VIP is given back, for
// kube-proxy serves what a status shows. Each Service is looked at by one worker at a time:
// settle decides and claims, status reports. What is written down holds for the object as it
// was read and no other, so that a process that dies, or leads no more, between two writes
// leaves nothing that its successor cannot read from the claims and statuses.
//
// Where to look: load is the start of a leader, reconcile the work on one Service, settle who
// waits and who is granted what, stale the statuses that show what their Services do not
// hold, quarantine what was given back a moment ago, restore a backup of etcd, linked the
// answers to the stock service controller, which Plinth's own program does not run.
package vip
