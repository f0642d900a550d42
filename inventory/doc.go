// Package inventory is one datacenter as values: its machines, racks, routers, pools, and what is asked of them, such as
// the BGP sessions of a machine or the link of an address.
//
// It is pure: no YAML, no clock, no disk and no Kubernetes. Package document reads an [Inventory] from what people write
// and prints it; package edit says what one inventory changes of another. An Inventory that left document.Load without
// an error is valid, and nobody downstream checks it again. Who changes racks or machines calls [Inventory.Reindex].
package inventory
