// Package ipam decides which Service holds which VIP, who waits and which address is
// given to nobody for a time, and says why not.
//
// It does no I/O and has no clock: [Allocate] decides on a [Ledger] that its caller keeps
// up to date. What it decides is carried out by others.
package ipam
