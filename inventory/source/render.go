package source

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// render makes the ConfigMaps of the generation after have, the one that lists the slices last. A rack that
// did not change keeps its slice, and an inventory that did not change all that is stored,
// however another version spelt it.
func render(inv *inventory.Inventory, have accepted) (parts []*v1.ConfigMap) {
	same := inv == have.stored || document.Equal(inv, have.stored)
	old, generation := have.parts[AcceptedName], have.generation+1
	was := map[string]int64{}
	for rack, n := range listed(old, keyRacks) {
		was[rack] = n
	}
	var racks strings.Builder
	for _, rack := range inv.Racks {
		of := was[rack.Name]
		slice, ok := sliceIn(have.parts, rack.Name, of)
		text := slice.Data
		if !same {
			text = document.FormatAccepted(inv.Slice(rack.Name))
		}
		if !ok || !bytes.Equal(slice.Data, text) {
			of = have.free(rack.Name, generation, text)
		}
		next := part(inv.Name, sliceName(rack.Name, of), text, of)
		next.Immutable = new(true)
		parts = append(parts, next)
		racks.WriteString(rack.Name + " " + strconv.FormatInt(of, 10) + "\n")
	}
	if same {
		return append(parts, old)
	}
	common := part(inv.Name, AcceptedName, document.FormatAccepted(inv.Common()), generation)
	common.Annotations[inventory.AnnotationFormat] = strconv.Itoa(document.StoredFormat(inv))
	common.Data[keyRacks] = racks.String()
	if old != nil {
		common.Data[keyPrevious] = old.Data[keyRacks]
		if leave := old.Annotations[edit.AnnotationAllow]; leave != "" {
			common.Annotations[edit.AnnotationAllow] = leave
		}
	}
	return append(parts, common)
}

// notStorable returns the problems of an inventory that does not fit into its ConfigMaps, or would not be read again as it
// is, once have is stored.
func notStorable(inv *inventory.Inventory, have accepted) inventory.Problems {
	parts := render(inv, have)
	if problems := tooLarge(inv, parts); len(problems) > 0 {
		return problems
	}
	return notReadBack(inv, have, parts)
}

// notReadBack returns the problem of an inventory that these ConfigMaps would not give back; none where that is
// stored already, or the stored one is kept.
func notReadBack(inv *inventory.Inventory, have accepted, parts []*v1.ConfigMap) inventory.Problems {
	if inv == have.stored || document.Equal(inv, have.stored) {
		return nil
	}
	var docs []document.Document
	for _, part := range parts {
		docs = append(docs, documentOf(part))
	}
	return document.ReadsBack(inv, docs...)
}

func tooLarge(inv *inventory.Inventory, parts []*v1.ConfigMap) (problems inventory.Problems) {
	for i, part := range parts {
		size := 0
		for _, v := range part.Data {
			size += len(v)
		}
		switch {
		case size <= maxStored:
		case i < len(inv.Racks):
			problems = append(problems, edit.TooLargeRack(inv.Racks[i].Name, len(inv.Racks[i].Machines), size, maxStored))
		default:
			problems = append(problems, edit.TooLargeCommon(size, maxStored))
		}
	}
	return problems
}

// leftOver returns the copies for older versions that are to be written, and the names, sorted, of the slices that
// neither the generation in force lists nor the one before, which an agent may be about to read.
func (a accepted) leftOver() (copies []*v1.ConfigMap, gone []string) {
	common, ok := a.parts[AcceptedName]
	if !ok {
		return nil, nil
	}
	keep := map[string]bool{AcceptedName: true, PreviousName: true, TrialName: true}
	for rack, n := range listed(common, keyRacks) {
		keep[copyName(rack)], keep[sliceName(rack, n)] = true, true
		slice := a.parts[sliceName(rack, n)]
		if slice == nil {
			continue
		}
		if want := copyOf(rack, slice); a.lacks(want) {
			copies = append(copies, want)
		}
	}
	for rack, n := range listed(common, keyPrevious) {
		keep[sliceName(rack, n)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(a.parts)) {
		if !keep[name] && generationOf(a.parts[name]) <= a.generation { // else another leader is about to list it
			gone = append(gone, name)
		}
	}
	return copies, gone
}
