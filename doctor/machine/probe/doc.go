// Package probe reads what a machine knows of itself, and asks on its links who has an address, for package machine to judge.
//
// It changes nothing. What it sends is a few ARP and neighbour discovery packets that no cache learns from, and a connection to a router with
// which the machine has none; what may not be read is noted in Facts.Unread.
package probe
