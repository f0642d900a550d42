// Package probe reads the state of a machine, and asks on its links for the holders of addresses, for package machine to judge.
//
// It changes nothing. What it sends is a few ARP and neighbour discovery packets that no cache learns from, and a connection to a router with
// which the machine has none; what may not be read is noted in Facts.Unread.
package probe
