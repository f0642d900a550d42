package edit

import (
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// keepIDs has each machine whose ID was not written keep the one that it has in force, under its name or under another: a
// Node's providerID never changes, so the Node of a machine that is renamed stays its Node, with its pod CIDRs.
func keepIDs(inv *inventory.Inventory, inForce *inventory.Inventory) (problems inventory.Problems) {
	gone := unmentioned(inv, inForce)
	for i := range inv.Racks {
		machines := inv.Racks[i].Machines
		for j := range machines {
			machine := &machines[j]
			if machine.OwnID {
				continue
			}
			if old, known := inForce.Machine(machine.Name); known {
				machine.ID = old.ID
				continue
			}
			at := slices.IndexFunc(gone, func(old inventory.Machine) bool { return isRenamed(machine, old) })
			if at < 0 {
				continue
			}
			old := gone[at]
			gone = slices.Delete(gone, at, at+1)
			machine.ID = old.ID
			problems = append(problems, inv.ProblemAt(inventory.MachinePath(machine.Rack, machine.Name), inventory.Problem{
				Severity: inventory.Warning, Code: inventory.MachineRenamed, Value: machine.Name,
				Message:  fmt.Sprintf("is machine %s under another name: it has %s. Its Node keeps its name, its providerID %s and its pod CIDRs", old.Name, inCommon(old, *machine), machine.ProviderID()),
				Accepted: fmt.Sprintf("id: %s, if it is another machine", machine.Name),
			}))
		}
	}
	inv.Reindex()
	return append(problems, idsTwice(inv)...)
}

// unmentioned are the machines in force that no machine has the name of, nor, by its own hand, the ID.
func unmentioned(inv *inventory.Inventory, inForce *inventory.Inventory) (gone []inventory.Machine) {
	names, ids := map[string]bool{}, map[string]bool{}
	for m := range inv.Machines() {
		names[m.Name] = true
		ids[m.ID] = ids[m.ID] || m.OwnID
	}
	for old := range inForce.Machines() {
		if !names[old.Name] && !ids[old.ID] && old.State != inventory.StateRetired {
			gone = append(gone, old)
		}
	}
	return gone
}

// isRenamed reports whether a machine that is no longer mentioned is this one: it has the same board, or the same
// addresses and perhaps the same board.
func isRenamed(m *inventory.Machine, old inventory.Machine) bool {
	if !m.SystemUUID.IsZero() && !old.SystemUUID.IsZero() {
		return m.SystemUUID == old.SystemUUID
	}
	return len(m.Addresses) > 0 && slices.Equal(sortedAddrs(m.Addresses), sortedAddrs(old.Addresses))
}

func sortedAddrs(all []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(all), netip.Addr.Compare)
}

// inCommon returns, in words, the properties by which a machine is known to be another one under a new name.
func inCommon(m inventory.Machine, other inventory.Machine) string {
	board := !m.SystemUUID.IsZero() && m.SystemUUID == other.SystemUUID
	addresses := slices.Equal(sortedAddrs(m.Addresses), sortedAddrs(other.Addresses))
	switch {
	case board && addresses:
		return "the same board and addresses"
	case board:
		return "the same board"
	default:
		return "the same addresses"
	}
}

// idsTwice has a problem for each machine whose ID is its name by default, and which a machine has that was called so
// before.
func idsTwice(inv *inventory.Inventory) (problems inventory.Problems) {
	first := map[string]inventory.Machine{}
	for machine := range inv.Machines() {
		other, taken := first[machine.ID]
		if !taken {
			first[machine.ID] = machine
			continue
		}
		if machine.Name != machine.ID && other.Name == machine.ID {
			machine, other = other, machine // the one that is new
		}
		problems = append(problems, inv.ProblemAt(inventory.MachinePath(machine.Rack, machine.Name), inventory.Problem{
			Severity: inventory.Error, Code: inventory.ProviderIDTwice, Value: machine.ID,
			Message:  fmt.Sprintf("has the id %s by its name, and machine %s, which was called so before, keeps it", machine.ID, other.Name),
			Accepted: fmt.Sprintf("id: %s-2, or any other that no machine has", machine.Name),
		}))
	}
	return problems
}
