package edit

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Difference holds the changes from one inventory to another. Its zero value
// means that there are none. Every list is sorted.
type Difference struct {
	Renames  []Rename
	Machines []MachineChange
	Sessions []SessionChange
	Pools    []PoolChange
	Settings []FieldChange // of everything else: spec.region, spec.racks[r01].zone, …
}

// ChangeKind is the kind of a change to a machine, a session or a pool.
type ChangeKind string

// The kinds of change.
const (
	Added    ChangeKind = "added"
	Removed  ChangeKind = "removed"  // of a machine: no longer mentioned, so it will be held
	Moved    ChangeKind = "moved"    // to another rack
	Changed  ChangeKind = "changed"  // in some field
	HeldNow  ChangeKind = "held"     // kept though it is no longer mentioned
	Retired  ChangeKind = "retired"  // its Node may be deleted
	Replaced ChangeKind = "replaced" // by another of the same name
	Renamed  ChangeKind = "renamed"  // a machine that has the same ID under another name, or a session whose router has
	Appears  ChangeKind = "appears"  // a session
	Vanishes ChangeKind = "vanishes" // a session
	Resets   ChangeKind = "resets"   // a session goes down and comes up again
	Grown    ChangeKind = "grown"    // a pool
	Shrunk   ChangeKind = "shrunk"   // a pool
)

// MachineChange is the change of a machine.
type MachineChange struct {
	Name   string
	Was    string     // its name before, where that is another one
	Kind   ChangeKind // the gravest that applies
	Rack   string     // that it is in afterwards, or was in
	Common string     // of one that is renamed, what it has under either name, as "the same board and addresses"
	Fields []FieldChange
}

// SessionChange is the change of a session between a machine and a router.
type SessionChange struct {
	Machine    string
	Router     string
	RouterAddr netip.Addr
	Kind       ChangeKind
	Was        string // the router's name before, where that is another one
}

// Given holds the ranges that one pool had and another has now.
type Given struct {
	To     string // the other's name
	Ranges []inventory.Range
}

// PoolChange is the change of a pool.
type PoolChange struct {
	Name   string
	Kind   ChangeKind
	Gained []inventory.Range // addresses that it did not have
	Lost   []inventory.Range // addresses that it has no longer
	Given  []Given           // those of Lost that another pool has now; the others are not announced any more
	ToLink []inventory.Range // addresses that were announced over BGP, and are on a link now
	ToBGP  []inventory.Range // the other way round
	Fields []FieldChange
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool {
	return len(d.Renames)+len(d.Machines)+len(d.Sessions)+len(d.Pools)+len(d.Settings) == 0
}

// Diff compares two inventories. Of what has another name it tells that, and what else changes.
func Diff(before, after *inventory.Inventory) Difference {
	names := namesIn(before, after)
	sessions := diffSessions(before, after, after) // they tell of names themselves
	before = renamedIn(before, names)
	return Difference{
		Renames:  names.told(sessions),
		Machines: diffMachines(before, after),
		Sessions: sessions,
		Pools:    diffPools(before, after),
		Settings: diffFields(document.FlatSettings(before), document.FlatSettings(after)),
	}
}

func diffMachines(before, after *inventory.Inventory) []MachineChange {
	var out []MachineChange
	for m := range before.Machines() {
		if _, ok := after.Same(m); !ok {
			out = append(out, MachineChange{Name: m.Name, Kind: Removed, Rack: m.Rack})
		}
	}
	for m := range after.Machines() {
		if c, changed := diffMachine(before, &m); changed {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b MachineChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func diffMachine(before *inventory.Inventory, machine *inventory.Machine) (MachineChange, bool) {
	change := MachineChange{Name: machine.Name, Rack: machine.Rack}
	old, ok := before.Same(*machine)
	if !ok {
		change.Kind = Added
		return change, true
	}
	if old.Name != machine.Name {
		change.Was, change.Common = old.Name, inCommon(old, *machine)
		old.Name = machine.Name
	}
	change.Fields = diffFields(document.FlatMachine(old), document.FlatMachine(*machine))
	if old.Rack != machine.Rack {
		change.Fields = append(change.Fields, FieldChange{"rack", old.Rack, machine.Rack})
	}
	if old.State != machine.State && old.OwnState == machine.OwnState {
		change.Fields = append(change.Fields, FieldChange{"state", string(old.State), string(machine.State)})
	}
	change.Kind = kindOf(&old, machine, change.Was != "")
	return change, len(change.Fields) > 0 || change.Kind == HeldNow || change.Kind == Renamed
}

// kindOf is the gravest change of a machine that either inventory has.
func kindOf(old, now *inventory.Machine, renamed bool) ChangeKind {
	switch {
	case now.State == inventory.StateRetired && old.State != inventory.StateRetired:
		return Retired
	case now.Held && !old.Held:
		return HeldNow
	case renamed:
		return Renamed
	case replaces(*now, *old):
		return Replaced
	case old.Rack != now.Rack:
		return Moved
	default:
		return Changed
	}
}

// sessionKey identifies a session in an inventory.
type sessionKey struct {
	machine, router string
	addr            netip.Addr
}

// diffSessions names machines as the inventory names does.
func diffSessions(before, after, names *inventory.Inventory) []SessionChange {
	was, is := allSessions(before, names), allSessions(after, names)
	var out []SessionChange
	note := func(k sessionKey, kind ChangeKind) {
		out = append(out, SessionChange{Machine: k.machine, Router: k.router, RouterAddr: k.addr, Kind: kind})
	}
	renamed := renamedSessions(was, is)
	for key, old := range was {
		now, ok := is[key]
		switch new, same := renamed[key]; {
		case same:
			out = append(out, SessionChange{Machine: key.machine, Router: new.router, RouterAddr: key.addr, Kind: Renamed, Was: key.router})
			delete(is, new)
		case !ok:
			note(key, Vanishes)
		case old.Terms() != now.Terms():
			note(key, Resets)
		case old != now:
			note(key, Changed)
		}
	}
	for k := range is {
		if _, ok := was[k]; !ok {
			note(k, Appears)
		}
	}
	slices.SortFunc(out, func(a, b SessionChange) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Router, b.Router), a.RouterAddr.Compare(b.RouterAddr))
	})
	return out
}

// renamedSessions returns the sessions that stay though their router has another name: speakers know them by its address. Where one
// machine has several sessions to an address none can be distinguished from another.
func renamedSessions(was, is map[sessionKey]inventory.Session) map[sessionKey]sessionKey {
	type end struct {
		machine string
		addr    netip.Addr
	}
	coming, going := map[end][]sessionKey{}, map[end][]sessionKey{}
	for k := range is {
		if _, ok := was[k]; !ok {
			coming[end{k.machine, k.addr}] = append(coming[end{k.machine, k.addr}], k)
		}
	}
	for k := range was {
		if _, ok := is[k]; !ok {
			going[end{k.machine, k.addr}] = append(going[end{k.machine, k.addr}], k)
		}
	}
	out := map[sessionKey]sessionKey{}
	for e, old := range going {
		if new := coming[e]; len(old) == 1 && len(new) == 1 {
			before, after := was[old[0]], is[new[0]]
			if before.Router = after.Router; before.Terms() == after.Terms() {
				out[old[0]] = new[0]
			}
		}
	}
	return out
}

// allSessions returns the sessions of all machines, by the names that these have in another inventory.
func allSessions(inv *inventory.Inventory, names *inventory.Inventory) map[sessionKey]inventory.Session {
	out := make(map[sessionKey]inventory.Session, inv.Size())
	for machine := range inv.Machines() {
		if machine.State == inventory.StateRetired {
			continue
		}
		name := machine.Name
		if now, ok := names.Same(machine); ok {
			name = now.Name
		}
		for _, s := range inv.Sessions(machine) {
			out[sessionKey{name, s.Router, s.RouterAddr}] = s
		}
	}
	return out
}

func diffPools(before, after *inventory.Inventory) []PoolChange {
	var out []PoolChange
	for _, p := range before.Pools {
		if _, ok := after.Pool(p.Name); !ok {
			out = append(out, PoolChange{Name: p.Name, Kind: Removed, Lost: inventory.RangesOf(p.Addresses())})
		}
	}
	for _, p := range after.Pools {
		if c, changed := diffPool(before, p); changed {
			out = append(out, c)
		}
	}
	for i := range out {
		out[i].Given = givenTo(out[i], after)
	}
	slices.SortFunc(out, func(a, b PoolChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// givenTo are the addresses that a pool has no longer and others have.
func givenTo(change PoolChange, after *inventory.Inventory) (all []Given) {
	lost := inventory.SetOf(change.Lost, nil)
	for _, pool := range after.Pools {
		if ranges := inventory.RangesOf(inventory.Common(lost, pool.Addresses())); len(ranges) > 0 && pool.Name != change.Name {
			all = append(all, Given{pool.Name, ranges})
		}
	}
	return all
}

func diffPool(before *inventory.Inventory, pool inventory.Pool) (PoolChange, bool) {
	change := PoolChange{Name: pool.Name, Kind: Changed}
	old, ok := before.Pool(pool.Name)
	change.Gained, change.Lost = gains(pool, old), gains(old, pool)
	if !ok {
		change.Kind = Added
		return change, true
	}
	change.Fields = diffFields(document.FlatPool(old), document.FlatPool(pool))
	change.ToLink, change.ToBGP = switchedBy(old, pool)
	switch {
	case len(change.Lost) > 0:
		change.Kind = Shrunk
	case len(change.Gained) > 0:
		change.Kind = Grown
	}
	return change, len(change.Fields)+len(change.ToLink)+len(change.ToBGP) > 0
}

// gains returns the addresses that p gives and other does not.
func gains(p, other inventory.Pool) []inventory.Range {
	return inventory.RangesOf(inventory.SetOf(inventory.RangesOf(p.Addresses()), inventory.RangesOf(other.Addresses())))
}

// told are the names that no session tells of.
func (n newNames) told(sessions []SessionChange) (out []Rename) {
	routers := maps.Clone(n.routers)
	for _, s := range sessions {
		delete(routers, s.Was)
	}
	for _, of := range []struct {
		what  string
		names map[string]string
	}{{"rack", n.racks}, {"pool", n.pools}, {"community", n.communities}, {"router", routers}} {
		for _, was := range slices.Sorted(maps.Keys(of.names)) {
			out = append(out, Rename{of.what, was, of.names[was]})
		}
	}
	return out
}
