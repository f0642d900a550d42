package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// index finds machines without a walk through all of them. It holds for the
// slice of racks that it was made of, and is not looked at for another.
type index struct {
	racks      []Rack
	byName     map[string]spot
	byProvider map[string]spot // ours and aliases
	byUUID     map[string]spot
}

// spot is the place of a machine in the racks.
type spot struct{ rack, machine int32 }

// Reindex makes the index anew.
func (inv *Inventory) Reindex() {
	total := inv.Size()
	ix := &index{racks: inv.Racks, byName: make(map[string]spot, total), byProvider: make(map[string]spot, total), byUUID: make(map[string]spot, total)}
	for r := range inv.Racks {
		for m := range inv.Racks[r].Machines {
			machine, at := &inv.Racks[r].Machines[m], spot{int32(r), int32(m)}
			first(ix.byName, machine.Name, at)
			first(ix.byProvider, machine.ProviderID(), at)
			for _, a := range machine.Aliases {
				first(ix.byProvider, a, at)
			}
			if !machine.SystemUUID.IsZero() {
				first(ix.byUUID, machine.SystemUUID.String(), at)
			}
		}
	}
	inv.index = ix
}

// first adds a spot under a key that has none yet.
func first(m map[string]spot, key string, at spot) {
	if _, ok := m[key]; !ok {
		m[key] = at
	}
}

// find returns the index, made on the spot where the racks are not those that
// it was made of.
func (inv *Inventory) find() *index {
	if inv.index != nil && len(inv.index.racks) == len(inv.Racks) && (len(inv.Racks) == 0 || &inv.index.racks[0] == &inv.Racks[0]) {
		return inv.index
	}
	other := Inventory{Racks: inv.Racks}
	other.Reindex()
	return other.index
}

func (ix *index) at(s spot) Machine { return ix.racks[s.rack].Machines[s.machine] }

// Machines yields the machines of all racks.
func (inv *Inventory) Machines() iter.Seq[Machine] {
	return func(yield func(Machine) bool) {
		for i := range inv.Racks {
			for _, m := range inv.Racks[i].Machines {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// Size is the number of machines.
func (inv *Inventory) Size() int {
	total := 0
	for i := range inv.Racks {
		total += len(inv.Racks[i].Machines)
	}
	return total
}

// Machine returns the machine of that name.
func (inv *Inventory) Machine(name string) (Machine, bool) {
	ix := inv.find()
	at, ok := ix.byName[name]
	if !ok {
		return Machine{}, false
	}
	return ix.at(at), true
}

// Rack returns the rack of that name.
func (inv *Inventory) Rack(name string) (Rack, bool) {
	i, ok := slices.BinarySearchFunc(inv.Racks, name, func(r Rack, n string) int { return cmp.Compare(r.Name, n) })
	if !ok {
		return Rack{}, false
	}
	return inv.Racks[i], true
}

// Router returns the router of that name, be it of the spec or of a rack.
func (inv *Inventory) Router(name string) (Router, bool) {
	i, ok := slices.BinarySearchFunc(inv.Routers, name, func(r Router, n string) int { return cmp.Compare(r.Name, n) })
	if !ok {
		return Router{}, false
	}
	return inv.Routers[i], true
}

// NodeIdentity holds the fields of a Kubernetes Node that identify its machine. A
// field that the Node does not set is empty.
type NodeIdentity struct {
	ProviderID string // spec.providerID
	SystemUUID UUID   // status.nodeInfo.systemUUID
	// UUIDShared: another Node, whose kubelet has not fallen silent, reports the same SystemUUID, so it tells neither. An agent,
	// which sees its own Node alone, does not know.
	UUIDShared bool   `json:",omitempty"`
	Name       string // metadata.name
}

// isNamedByPlinth reports whether the Node has a providerID that Plinth gave.
func (n NodeIdentity) isNamedByPlinth() bool {
	return strings.HasPrefix(n.ProviderID, ProviderScheme+"://")
}

// ErrNoMachine means that no machine of the inventory is the Node.
var ErrNoMachine = errors.New("the inventory has no such machine")

// AmbiguousError means that a Node could be either of two machines.
type AmbiguousError struct {
	Node     NodeIdentity
	Machines []string // names, sorted
}

// Error names the machines that the Node could be.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("node %s (providerID %q, systemUUID %q) could be any of the machines %s",
		e.Node.Name, e.Node.ProviderID, e.Node.SystemUUID, strings.Join(e.Machines, ", "))
}

// MachineOf returns the machine that a Node is. A providerID that Plinth gave says it, and nothing overrules that:
// boards leave the factory with one and the same systemUUID. Else it is that of its providerID (an alias)
// and its systemUUID, and of its name where the providerID is of no machine:
// machines may have each other's names. Where two of these name
// different machines the answer is an [AmbiguousError], never a guess, unless one of these is a systemUUID
// that several Nodes report; where
// none does, or the machine of that name has another systemUUID, it is
// [ErrNoMachine].
func (inv *Inventory) MachineOf(n NodeIdentity) (Machine, error) {
	ix := inv.find()
	m, err := ix.machineOf(n)
	if err != nil && n.UUIDShared && isAmbiguous(err) {
		n.SystemUUID = UUID{}
		return ix.machineOf(n)
	}
	return m, err
}

func isAmbiguous(err error) bool {
	var either *AmbiguousError
	return errors.As(err, &either)
}

func (ix *index) machineOf(identity NodeIdentity) (Machine, error) {
	var found [3]spot
	count := 0
	add := func(m map[string]spot, key string) {
		if at, ok := m[key]; ok && key != "" {
			found[count] = at
			count++
		}
	}
	add(ix.byProvider, identity.ProviderID)
	known := count > 0
	if known && identity.isNamedByPlinth() {
		return ix.at(found[0]), nil
	}
	add(ix.byUUID, identity.SystemUUID.String())
	if !known {
		add(ix.byName, identity.Name)
	}
	if count == 0 {
		return Machine{}, ErrNoMachine
	}
	for _, at := range found[1:count] {
		if at != found[0] {
			return Machine{}, ix.ambiguous(identity, found[:count])
		}
	}
	m := ix.at(found[0])
	if count == 1 && m.SystemUUID != identity.SystemUUID && !m.SystemUUID.IsZero() && !identity.SystemUUID.IsZero() && identity.ProviderID != m.ProviderID() && !slices.Contains(m.Aliases, identity.ProviderID) {
		return Machine{}, fmt.Errorf("%w: machine %s has systemUUID %s, the node reports %s; if this is machine %s now, %s, and write its id if that is another",
			ErrNoMachine, m.Name, m.SystemUUID, identity.SystemUUID, m.Name, identity.SystemUUID.advice())
	}
	return m, nil
}

func (ix *index) ambiguous(n NodeIdentity, found []spot) error {
	ambiguous := &AmbiguousError{Node: n}
	for _, at := range found {
		ambiguous.Machines = append(ambiguous.Machines, ix.at(at).Name)
	}
	ambiguous.Machines = SortedOnce(ambiguous.Machines)
	return ambiguous
}

// SharedMatches warns of each machine whose match several of a cluster's Nodes fit.
func (inv *Inventory) SharedMatches(nodes []NodeIdentity) (out Problems) {
	by := map[UUID][]string{}
	for _, n := range nodes {
		if n.UUIDShared {
			by[n.SystemUUID] = append(by[n.SystemUUID], n.Name)
		}
	}
	for _, rack := range inv.Racks {
		for _, machine := range rack.Machines {
			names := by[machine.SystemUUID]
			if len(names) == 0 || machine.SystemUUID.IsZero() {
				continue
			}
			slices.Sort(names)
			out = append(out, Problem{
				Severity: Warning, Code: SharedMatch, Path: MachinePath(rack.Name, machine.Name) + ".match.systemUUID", Value: machine.SystemUUID.String(),
				Message:  "is what nodes " + Abridged(names) + " report: a number that several boards have decides nothing",
				Accepted: "no match: the machine is told by its provider ID and its name",
			})
		}
	}
	return out
}

// ProblemAt is a problem about a rack or machine of the inventory.
func (inv *Inventory) ProblemAt(path string, p Problem) Problem {
	at := inv.Positions[path]
	p.Path, p.Source, p.Line, p.Column = path, at.Source, at.Line, at.Column
	p.Severity = cmp.Or(p.Severity, Error)
	return p
}
