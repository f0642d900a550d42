package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/routerconfig"
)

// sessionLines tell what becomes of sessions, and in one line of a router all of whose sessions are
// reset.
func sessionLines(d inventory.Difference, before *inventory.Inventory) (out []string) {
	resets, all := map[string]int{}, map[string]int{}
	for _, s := range d.Sessions {
		if s.Kind == inventory.Resets {
			resets[s.Router]++
		}
	}
	for m := range before.Machines() {
		for _, s := range before.Sessions(m) {
			if m.State != inventory.StateRetired {
				all[s.Router]++
			}
		}
	}
	told := map[string]bool{}
	for _, s := range d.Sessions {
		whole := s.Kind == inventory.Resets && resets[s.Router] > 1 && resets[s.Router] == all[s.Router]
		switch {
		case !whole:
			out = append(out, s.String())
		case !told[s.Router]:
			told[s.Router] = true
			out = append(out, fmt.Sprintf("every session with %s is reset (%d)", s.Router, all[s.Router]))
		}
	}
	return out
}

// trialLines tell which routers' new terms are tried on one machine first.
func trialLines(before, after *inventory.Inventory) (out []string) {
	if before.Safety.Trial() == 0 {
		return nil
	}
	retermed := inventory.RetermedBy(after, before)
	for _, router := range retermed.Routers() {
		out = append(out, fmt.Sprintf("new terms with %s: one of %d machines tries them first", router, len(retermed[router])))
	}
	return out
}

// routersToTell are those whose configuration is another one after an edit, and those that are new.
// Where the inventory does not say what a router runs, it is compared as FRR's.
func routersToTell(before, after *inventory.Inventory) (names []string) {
	side := func(inv *inventory.Inventory, r inventory.Router) []byte {
		text, err := routerconfig.Render(inv, r.Name, cmp.Or(r.OS, "frr"), routerconfig.Options{})
		if err != nil {
			return nil // plinth router-config says why
		}
		return text
	}
	for _, r := range after.Routers {
		if text := side(after, r); text != nil && !bytes.Equal(text, side(before, r)) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}
