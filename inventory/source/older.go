package source

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// An older version kept nothing of a slice that it wrote, and read all slices as they were.
// Where it failed half-way, or died, there are slices newer than the common ConfigMap lists
// that do not keep the listed generation. The controller manager reads these as that version
// would have, for nothing else knows their machines; agents wait until it lists them.

// readGenerations returns, by rack, the generation in which the controller manager reads
// each slice: the one that the common ConfigMap lists, but where an older version left half
// of an edit.
func readGenerations(parts map[string]*v1.ConfigMap) map[string]int64 {
	common, ok := parts[AcceptedName]
	if !ok {
		return nil
	}
	reads := sliceGenerations(common)
	var half int64 // the generation that the older version was writing
	for rack, listed := range reads {
		if n := leftByOlder(parts[acceptedName(rack)], listed); n > 0 {
			reads[rack] = n
			half = max(half, n)
		}
	}
	for name, slice := range parts { // of racks that came with that generation
		rack, ok := strings.CutPrefix(name, AcceptedName+"-")
		if _, listed := reads[rack]; !ok || listed {
			continue
		}
		if n := leftByOlder(slice, generationOf(common)); n > 0 && n <= half {
			reads[rack] = n
		}
	}
	return reads
}

// leftByOlder returns the generation that an older version left in a slice, or that this one
// keeps of that; 0: the slice says what it should of the listed generation, or nothing does.
func leftByOlder(slice *v1.ConfigMap, listed int64) int64 {
	if slice == nil || generationOf(slice) <= listed {
		return 0
	}
	previous, kept := slice.Annotations[annotationPrevious]
	if !kept {
		return generationOf(slice)
	}
	if n, err := strconv.ParseInt(previous, 10, 64); err == nil && n > listed {
		return n
	}
	return 0
}

// halves returns the racks whose slices are not read in the generation that is listed, sorted.
func halves(parts map[string]*v1.ConfigMap) []string {
	common, ok := parts[AcceptedName]
	if !ok {
		return nil
	}
	listed, reads := sliceGenerations(common), readGenerations(parts)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(reads)), func(rack string) bool { return reads[rack] == listed[rack] })
}

// parseAccepted reads documents of what was accepted. Where some are of half an edit, a machine
// that moved may be in two racks: it is in the one whose slice is newer.
func parseAccepted(docs []inventory.Document, parts map[string]*v1.ConfigMap) (*inventory.Inventory, inventory.Problems) {
	inv, problems := inventory.ParseAccepted(docs...)
	if inv == nil || len(halves(parts)) == 0 {
		return inv, problems
	}
	reads := readGenerations(parts)
	newest := map[string]int64{} // by machine
	for _, rack := range inv.Racks {
		for _, m := range rack.Machines {
			newest[m.Name] = max(newest[m.Name], reads[rack.Name])
		}
	}
	for i := range inv.Racks {
		rack := &inv.Racks[i]
		rack.Machines = slices.DeleteFunc(rack.Machines, func(m inventory.Machine) bool { return reads[rack.Name] < newest[m.Name] })
	}
	return inventory.ParseAccepted(inventory.Document{Source: docs[0].Source, Data: inv.FormatAccepted()})
}
