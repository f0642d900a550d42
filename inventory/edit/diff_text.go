package edit

import (
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// String describes the difference in words, one change a line.
func (d Difference) String() string {
	return strings.Join(slices.Concat(
		inventory.Strings(d.Renames), inventory.Strings(d.Machines), inventory.Strings(d.Sessions), inventory.Strings(d.Pools), inventory.Strings(d.Settings),
	), "\n")
}

// machineWords tell what happens to a machine.
var machineWords = map[ChangeKind]string{
	Added:    "machine %s is added to rack %s",
	Removed:  "machine %s of rack %s is no longer mentioned, and will be held",
	Moved:    "machine %s moves to rack %s",
	Changed:  "machine %s of rack %s changes",
	HeldNow:  "machine %s of rack %s is held, though nobody mentions it any more",
	Retired:  "machine %s of rack %s is retired: its Node may be deleted",
	Replaced: "machine %s of rack %s is replaced by another: its Node is to be deleted and made anew",
}

// String describes the change of the machine.
func (m MachineChange) String() string {
	if m.Kind == Renamed {
		return fmt.Sprintf("machine %s of rack %s is called %s now: %s. Its Node, providerID and pod CIDRs stay", m.Was, m.Rack, m.Name, m.Common) + fieldList(m.Fields)
	}
	return fmt.Sprintf(machineWords[m.Kind], m.Name, m.Rack) + fieldList(m.Fields)
}

// sessionWords tell what happens to a session.
var sessionWords = map[ChangeKind]string{
	Appears:  "session of %s with %s (%s) comes up",
	Vanishes: "session of %s with %s (%s) ends",
	Resets:   "session of %s with %s (%s) is reset",
	Changed:  "session of %s with %s (%s) changes what it carries, and stays up",
}

// String describes the change of the session.
func (s SessionChange) String() string {
	if s.Kind == Renamed {
		return fmt.Sprintf("session of %s with %s (%s) stays up under the name %s", s.Machine, s.Was, s.RouterAddr, s.Router)
	}
	return fmt.Sprintf(sessionWords[s.Kind], s.Machine, s.Router, s.RouterAddr)
}

// String describes the change of the pool.
func (p PoolChange) String() string {
	var parts []string
	if len(p.Gained) > 0 {
		parts = append(parts, "gains "+joined(p.Gained))
	}
	gone := inventory.Pool{Ranges: p.Lost}
	for _, g := range p.Given {
		parts = append(parts, "gives "+joined(g.Ranges)+" to pool "+g.To)
		gone.Exclude = append(gone.Exclude, g.Ranges...)
	}
	if left := inventory.RangesOf(gone.Addresses()); len(left) > 0 {
		parts = append(parts, "loses "+joined(left)+", of which none is announced any more")
	}
	if len(p.ToLink) > 0 {
		parts = append(parts, "announces "+joined(p.ToLink)+" on the link in place of BGP")
	}
	if len(p.ToBGP) > 0 {
		parts = append(parts, "announces "+joined(p.ToBGP)+" over BGP in place of the link")
	}
	text := fmt.Sprintf("pool %s is %s", p.Name, p.Kind)
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text + fieldList(p.Fields)
}
