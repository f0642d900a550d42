package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/inventory/routerconfig"
	"plinth.dev/plinth/preview"
)

// sessionLines tell the fate of sessions, and in one line of a router all of whose sessions are
// reset, or that has another name.
func sessionLines(difference edit.Difference, before *inventory.Inventory) (out []string) {
	resets, all := map[string]int{}, map[string]int{}
	for _, s := range difference.Sessions {
		if s.Kind == edit.Resets {
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
	told, renamed := map[string]bool{}, map[string]int{}
	for _, change := range difference.Sessions {
		if change.Kind == edit.Renamed {
			if renamed[change.Was]++; renamed[change.Was] == 1 {
				out = append(out, fmt.Sprintf("router %s is called %s now: the same address, and its sessions stay up", change.Was, change.Router))
			}
			continue
		}
		whole := change.Kind == edit.Resets && resets[change.Router] > 1 && resets[change.Router] == all[change.Router]
		switch {
		case !whole:
			out = append(out, change.String())
		case !told[change.Router]:
			told[change.Router] = true
			out = append(out, fmt.Sprintf("every session with %s is reset (%d)", change.Router, all[change.Router]))
		}
	}
	return out
}

// trialLines tell which routers' new terms are tried on one machine first, and what that may cost there as far as a
// cluster says: nil if none is asked.
func trialLines(before, after *inventory.Inventory, now *preview.Cluster) (out []string) {
	if before.Safety.Trial() == 0 {
		return nil
	}
	retermed := edit.RetermedBy(after, before)
	for _, router := range retermed.Routers() {
		line := fmt.Sprintf("new terms with %s: one of %d machines tries them first", router, len(retermed[router]))
		if now != nil {
			line += ", " + trialCost(before, retermed[router], *now)
		}
		out = append(out, line)
	}
	return out
}

// trialCost returns the number of endpoints on the machine, of some, that has the fewest, as a sentence.
func trialCost(before *inventory.Inventory, machines []string, now preview.Cluster) string {
	least, name := -1, ""
	for _, node := range slices.Sorted(maps.Keys(now.Nodes)) {
		id := now.Nodes[node].Identity
		id.Name = node
		m, err := before.Identify(id)
		if err != nil || !slices.Contains(machines, m.Name) {
			continue
		}
		if here := now.Endpoints[node]; least < 0 || here < least {
			least, name = here, m.Name
		}
	}
	within := "for up to " + before.Safety.Trial().String()
	switch {
	case least < 0:
		return "and none of them has a Node"
	case least == 0:
		return "if it can one without an endpoint of a Service, as " + name + ": what runs there may lose its way to other racks " + within
	default:
		return fmt.Sprintf("if it can the one with the fewest endpoints of Services, which is %s with %d: these, and what else runs there, may lose their way to other racks %s", name, least, within)
	}
}

// routersToTell returns the routers whose configuration an edit changes, and those that are new.
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
