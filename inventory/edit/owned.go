package edit

import (
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// owned indexes the addresses, UUIDs and aliases of an inventory, each of which has one machine or router as its owner.
type owned struct {
	addresses map[netip.Addr]string
	uuids     map[string]string
	aliases   map[string]string
}

// ownedIn collects them, each with the name of its holder.
func ownedIn(inv *inventory.Inventory) owned {
	all := owned{map[netip.Addr]string{}, map[string]string{}, map[string]string{}}
	for machine := range inv.Machines() {
		for _, a := range slices.Concat(machine.Addresses, machine.ExternalAddresses) {
			all.addresses[a] = machine.Name
		}
		for _, a := range machine.Aliases {
			all.aliases[a] = machine.Name
		}
		all.uuids[machine.SystemUUID.String()] = machine.Name
	}
	for _, r := range inv.Routers {
		for _, a := range r.Addresses {
			all.addresses[a] = r.Name
		}
	}
	delete(all.uuids, "")
	return all
}

// release takes from a held machine the addresses, UUIDs and aliases that have another owner in the edit.
func (o owned) release(machine *inventory.Machine) inventory.Problems {
	var problems inventory.Problems
	lose := func(what, value, to string) {
		problems = append(problems, inventory.Problem{
			Severity: inventory.Warning, Code: inventory.HeldLosesClaim, Path: inventory.MachinePath(machine.Rack, machine.Name), Value: value,
			Message: fmt.Sprintf("is no longer mentioned, and its %s now belongs to %s", what, to), Accepted: "state: retired, if the machine is gone",
		})
	}
	free := func(a netip.Addr) bool {
		to, taken := o.addresses[a]
		if taken {
			lose("address", a.String(), to)
		}
		return taken
	}
	machine.Addresses = slices.DeleteFunc(slices.Clone(machine.Addresses), free)
	machine.ExternalAddresses = slices.DeleteFunc(slices.Clone(machine.ExternalAddresses), free)
	machine.Aliases = slices.DeleteFunc(slices.Clone(machine.Aliases), func(a string) bool {
		to, taken := o.aliases[a]
		if taken {
			lose("alias", a, to)
		}
		return taken
	})
	if to, taken := o.uuids[machine.SystemUUID.String()]; taken {
		lose("systemUUID", machine.SystemUUID.String(), to)
		machine.SystemUUID = inventory.UUID{}
	}
	machine.PlanUnreachable()
	return problems
}
