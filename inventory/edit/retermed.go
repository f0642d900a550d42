package edit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// Retermed are sessions that an edit gives other terms, so that they go down, or that take the place of all that a machine
// has: by router, the names in force of the machines that have one with it, sorted.
type Retermed map[string][]string

// RetermedBy returns the sessions that an edit gives other terms: the same machine and router, and another AS,
// password, TTL, address, or anything else that ends the session. Those with a router that is new
// to a machine are among them where it stays in its rack and keeps no session besides: should they not come up, it has none.
func RetermedBy(next, inForce *inventory.Inventory) Retermed {
	all := Retermed{}
	if inForce == nil {
		return all
	}
	type pair struct{ machine, router string }
	vanish, appear := map[pair]bool{}, map[pair]bool{}
	vanished := map[string]int{} // sessions, by machine
	note := func(p pair) {
		if !slices.Contains(all[p.router], p.machine) {
			all[p.router] = append(all[p.router], p.machine)
		}
	}
	for _, change := range diffSessions(inForce, next, inForce) {
		key := pair{change.Machine, change.Router}
		switch change.Kind {
		case Resets:
			note(key)
		case Vanishes:
			vanish[key] = true
			vanished[change.Machine]++
		case Appears:
			appear[key] = true
		default: // changes no session
		}
	}
	for p := range vanish {
		if appear[p] { // the router, or the machine, has another address
			note(p)
		}
	}
	for p := range appear {
		if n := vanished[p.machine]; n > 0 && n == sessionsInstead(inForce, next, p.machine) {
			note(p)
		}
	}
	for router := range all {
		slices.Sort(all[router])
	}
	return all
}

// sessionsInstead returns the number of sessions of a machine that stays in its rack under another inventory; 0: it does not.
func sessionsInstead(inv *inventory.Inventory, next *inventory.Inventory, machine string) int {
	m, known := inv.Machine(machine)
	now, there := next.Same(m)
	if !known || !there || now.Rack != m.Rack {
		return 0
	}
	return len(inv.Sessions(m))
}

// Routers are the names of the routers, sorted.
func (r Retermed) Routers() []string { return slices.Sorted(maps.Keys(r)) }

// Digest names the sessions, and not what their terms are: an edit that corrects the
// terms it gives the same sessions has the same.
func (r Retermed) Digest() string {
	h := sha256.New()
	for _, router := range r.Routers() {
		fmt.Fprintln(h, "retermed", router, strings.Join(r[router], " "))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
