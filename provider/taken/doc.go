// Package taken lists the addresses that a cluster uses already, each with its user: its Nodes, their pods, and its Services. No VIP
// is given from these, and pools that contain some are reported. It alone decides which of them count, so that the ledger of
// VIPs, the Events, an edit and plinth status agree.
//
// Of pods that are in no pod CIDR of a Node, as some CNIs have them, nothing is known here: an edit is held against the endpoints,
// too (package cluster).
package taken
