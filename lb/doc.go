// Package lb decides which VIP a Service gets and which prefixes a machine
// announces to which router, and says why not.
//
// It is pure: [Allocate] and [Advertise] take values and return values, the same
// for the same input. What they decide is carried out by others.
package lb
