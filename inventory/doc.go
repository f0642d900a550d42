// Package inventory parses, validates, merges, compares and answers questions
// about the machines, racks, routers and addresses of one datacenter.
//
// It is pure: bytes in, a value or a list of problems out. It has no clock, no
// disk and no Kubernetes. An [Inventory] that left [Parse] without an error is
// valid, and nobody downstream checks it again.
package inventory
