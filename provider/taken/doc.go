// Package taken tells which addresses a cluster has already, and who has them: its Nodes, their pods, and its Services. No VIP
// is given from these, and pools that have some are told of. It is the only place that says what counts, so that the ledger of
// VIPs, the Events, an edit and plinth status agree.
//
// Of pods that are in no pod CIDR of a Node, as some CNIs have them, nothing is known here: an edit is held against the endpoints,
// too (package cluster).
package taken
