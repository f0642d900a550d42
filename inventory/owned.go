package inventory

import (
	"fmt"
	"net/netip"
	"slices"
)

// owned is what the machines and routers of an inventory have for themselves alone.
type owned struct {
	addresses map[netip.Addr]string
	uuids     map[string]string
	aliases   map[string]string
}

// owned collects them, each with the name of its holder.
func (inv *Inventory) owned() owned {
	o := owned{map[netip.Addr]string{}, map[string]string{}, map[string]string{}}
	for m := range inv.Machines() {
		for _, a := range slices.Concat(m.Addresses, m.ExternalAddresses) {
			o.addresses[a] = m.Name
		}
		for _, a := range m.Aliases {
			o.aliases[a] = m.Name
		}
		o.uuids[m.SystemUUID.String()] = m.Name
	}
	for _, r := range inv.Routers {
		for _, a := range r.Addresses {
			o.addresses[a] = r.Name
		}
	}
	delete(o.uuids, "")
	return o
}

// release takes from a held machine what somebody who is mentioned has now.
func (o owned) release(m *Machine) Problems {
	var problems Problems
	lose := func(what, value, to string) {
		problems = append(problems, Problem{
			Severity: Warning, Code: HeldLosesClaim, Path: machinePath(m.Rack, m.Name), Value: value,
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
	m.Addresses = slices.DeleteFunc(slices.Clone(m.Addresses), free)
	m.ExternalAddresses = slices.DeleteFunc(slices.Clone(m.ExternalAddresses), free)
	m.Aliases = slices.DeleteFunc(slices.Clone(m.Aliases), func(a string) bool {
		to, taken := o.aliases[a]
		if taken {
			lose("alias", a, to)
		}
		return taken
	})
	if to, taken := o.uuids[m.SystemUUID.String()]; taken {
		lose("systemUUID", m.SystemUUID.String(), to)
		m.SystemUUID = UUID{}
	}
	m.planUnreachable()
	return problems
}

// planUnreachable has a held machine that has no address left be planned, since in every other state a
// machine has one: what is stored of it could not be read again. Nobody reaches it any more. The pod CIDRs
// stay its own, for its Node may live, and so does the taint that the Node has in maintenance.
func (m *Machine) planUnreachable() {
	if !m.Held || len(m.Addresses) > 0 || m.State == StatePlanned || m.State == StateRetired {
		return
	}
	if m.State == StateMaintenance {
		m.Taints = append(slices.Clone(m.Taints), TaintMaintenance)
		slices.SortFunc(m.Taints, compareTaints)
	}
	m.OwnState, m.State = StatePlanned, StatePlanned
}
