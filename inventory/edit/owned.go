package edit

import (
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// owned has the owner of each address, UUID and alias of an inventory: one machine or router.
type owned map[claim]string

// claim is what one machine or router has alone.
type claim struct{ what, value string }

// ownedIn collects them, each with the name of its holder.
func ownedIn(inv *inventory.Inventory) owned {
	all := owned{}
	for machine := range inv.Machines() {
		for _, a := range slices.Concat(machine.Addresses, machine.ExternalAddresses) {
			all[claim{"address", a.String()}] = machine.Name
		}
		for _, a := range machine.Aliases {
			all[claim{"alias", a}] = machine.Name
		}
		all[claim{"systemUUID", machine.SystemUUID.String()}] = machine.Name
	}
	for _, r := range inv.Routers {
		for _, a := range r.Addresses {
			all[claim{"address", a.String()}] = r.Name
		}
	}
	delete(all, claim{what: "systemUUID"})
	return all
}

// release takes from a held machine the addresses, UUIDs and aliases that have another owner in the edit.
func (o owned) release(machine *inventory.Machine) inventory.Problems {
	var problems inventory.Problems
	loses := func(what, value string) bool {
		to, taken := o[claim{what, value}]
		if taken {
			problems = append(problems, inventory.Problem{
				Severity: inventory.Warning, Code: inventory.HeldLosesClaim, Path: inventory.MachinePath(machine.Rack, machine.Name), Value: value,
				Message: fmt.Sprintf("is no longer mentioned, and its %s now belongs to %s", what, to), Accepted: "state: retired, if the machine is gone",
			})
		}
		return taken
	}
	losesAddress := func(a netip.Addr) bool { return loses("address", a.String()) }
	machine.Addresses = slices.DeleteFunc(slices.Clone(machine.Addresses), losesAddress)
	machine.ExternalAddresses = slices.DeleteFunc(slices.Clone(machine.ExternalAddresses), losesAddress)
	machine.Aliases = slices.DeleteFunc(slices.Clone(machine.Aliases), func(a string) bool { return loses("alias", a) })
	if loses("systemUUID", machine.SystemUUID.String()) {
		machine.SystemUUID = inventory.UUID{}
	}
	machine.PlanUnreachable()
	return problems
}
