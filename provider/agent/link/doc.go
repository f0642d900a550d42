// Package link is a machine's part in answering for VIPs on its subnets: who answers is decided here, by the plans of
// the agent's last pass, by which machines the mesh finds up, and by what was heard on the wire.
//
// [Links] decides in a goroutine of its own whenever a machine comes or goes, so that no pass holds up a failover: a
// pass hands it [Plans], and asks what came of them. The succession itself, who is the owner of what, is a value's of
// package advertise; here are its clock, its probes and its audits. [Owners] writes into claims who answers, for people
// to read. Nothing but the [Wire] and the [Neighbors] touches the network.
package link
