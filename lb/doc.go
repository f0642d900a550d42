// Package lb decides which VIP a Service gets and which prefixes a machine
// announces to which router, and says why not.
//
// It does no I/O and has no clock. [Advertise] is a function of its [View];
// [Allocate] decides on a [Ledger] that its caller keeps up to date. What they
// decide is carried out by others.
package lb
