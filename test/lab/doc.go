// Package lab builds a datacenter on one machine: racks, routers, an outside
// client and a real Kubernetes control plane, each in network namespaces of its
// own, and runs Plinth's programs in it.
//
// A lab is a value. Describe its shape with a Topology, start it, ask it:
//
//	l, err := lab.Start(ctx, lab.TwoRacks(), lab.Options{Name: "mine"})
//	defer l.Down(ctx)
//	err = l.ApplyInventory(ctx, lab.Inventory(l.Topology))
//	body, err := l.Get(ctx, "http://203.0.113.0/")
//
// Everything that a lab makes bears its name and is written down before it is
// made, so Down removes it even after the process that made it was killed.
package lab
