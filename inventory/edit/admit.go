package edit

import (
	"fmt"
	"slices"

	"plinth.dev/plinth/inventory"
)

// Admit returns the inventory that is to be in force after next: next itself, carved, and
// every machine of inForce that next does not mention, held as it was with its
// rack and its routers. Only a machine that is retired may go. A machine is
// mentioned if its ID is, under whatever name, or else its name. [Losses] has what inForce
// loses by it. inForce may be nil.
func Admit(next, inForce *inventory.Inventory) (*inventory.Inventory, inventory.Problems) {
	if inForce == nil {
		return inventory.Carve(next, nil)
	}
	out := next.Clone()
	problems := keepIDs(out, inForce)
	if problems.Err() != nil {
		return nil, problems.Sorted()
	}
	problems = append(problems, tellReplaced(out, inForce)...)
	problems = append(problems, hold(out, inForce)...)
	out.Normalize()
	out.FindLinks()
	carved, more := inventory.Carve(out, inForce)
	problems = append(problems, more...).Sorted()
	if len(problems.Errors()) > 0 {
		return nil, problems
	}
	return carved, problems
}

// replaces reports whether a machine is another one, of the same name, than the one before. A
// machine that is planned has no Node yet, and so no provider ID, unless it is held.
func replaces(now, old inventory.Machine) bool {
	hadNode := old.Held || old.State != inventory.StatePlanned && old.State != inventory.StateRetired
	return now.Name == old.Name && now.ID != old.ID && hadNode
}

// tellReplaced warns of machines whose Nodes are now of a machine that is no more.
func tellReplaced(inv *inventory.Inventory, inForce *inventory.Inventory) (problems inventory.Problems) {
	for old := range inForce.Machines() {
		if m, ok := inv.Same(old); ok && replaces(m, old) {
			problems = append(problems, inv.ProblemAt(inventory.MachinePath(m.Rack, m.Name), inventory.Problem{
				Severity: inventory.Warning, Code: inventory.MachineReplaced, Value: m.ID,
				Message:  fmt.Sprintf("is another machine than %s, whose Node, if it is there, Plinth leaves alone from now on: a Node's providerID never changes", old.ID),
				Accepted: fmt.Sprintf("once the machine is in place, kubectl delete node %s, and a restart of the kubelet there; or id: %s, if nothing was replaced", m.Name, old.ID),
			}))
		}
	}
	return problems
}

// TooLargeRack is the problem of a rack with so many machines that is too large to be
// stored. Sizes are in bytes.
func TooLargeRack(rack string, machines, size, most int) inventory.Problem {
	return inventory.Problem{
		Severity: inventory.Error, Code: inventory.TooLarge, Path: fmt.Sprintf("spec.racks[%s]", rack),
		Message:  fmt.Sprintf("takes %d bytes to store with its %d machines", size, machines),
		Value:    fmt.Sprintf("%d bytes", size),
		Accepted: fmt.Sprintf("at most %d bytes: split the rack into %d or more, or shorten the labels of its machines", most, size/most+1),
	}
}

// TooLargeCommon is the problem of what all racks share, if it is too large to be stored.
// Sizes are in bytes.
func TooLargeCommon(size, most int) inventory.Problem {
	return inventory.Problem{
		Severity: inventory.Error, Code: inventory.TooLarge, Path: "spec",
		Message:  fmt.Sprintf("takes %d bytes to store without the racks", size),
		Value:    fmt.Sprintf("%d bytes", size),
		Accepted: fmt.Sprintf("at most %d bytes: write ranges in place of single addresses in pools, or name routers inside racks", most),
	}
}

// hold adds to inv every machine of inForce that is not mentioned, with its
// rack and the routers that it needs.
func hold(inv *inventory.Inventory, inForce *inventory.Inventory) inventory.Problems {
	all := ownedIn(inv)
	var problems inventory.Problems
	missing := make(map[string][]inventory.Machine)
	for _, old := range inForce.Racks {
		for _, machine := range old.Machines {
			if _, mentioned := inv.Same(machine); mentioned || machine.State == inventory.StateRetired {
				continue
			}
			machine.Held, machine.OwnState = true, machine.State // whatever becomes of its rack
			problems = append(problems, all.release(&machine)...)
			missing[old.Name] = append(missing[old.Name], machine)
		}
	}
	for _, old := range inForce.Racks {
		if held := missing[old.Name]; len(held) > 0 {
			holdIn(inv, inForce, old, held)
		}
	}
	inv.AdoptRouters()
	return problems
}

// holdIn puts held machines into their rack, or into what is kept of it.
func holdIn(inv *inventory.Inventory, inForce *inventory.Inventory, old inventory.Rack, held []inventory.Machine) {
	for i := range inv.Racks {
		if r := &inv.Racks[i]; r.Name == old.Name {
			r.Machines = append(r.Machines, held...)
			return
		}
	}
	old.Machines = held
	inv.Racks = append(inv.Racks, old)
	for _, name := range old.Peers {
		router, ok := inForce.Router(name)
		if ok && !slices.ContainsFunc(inv.Routers, func(r inventory.Router) bool { return r.Name == name }) {
			inv.Routers = append(inv.Routers, router)
		}
	}
}
