package source

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// maxStored is how many bytes of values the API server lets a ConfigMap have.
const maxStored = v1.MaxSecretSize

// render makes the ConfigMaps of the generation after have, the one that lists the slices last. A rack that
// did not change keeps its slice, and an inventory that did not change all that is stored,
// however another version spelt it.
func render(inv *inventory.Inventory, have accepted) (parts []*v1.ConfigMap) {
	unchanged := inv == have.stored || document.Equal(inv, have.stored)
	old, generation := have.parts[AcceptedName], have.generation+1
	was := map[string]int64{}
	for rack, n := range listed(old, keyRacks) {
		was[rack] = n
	}
	var racks strings.Builder
	for _, rack := range inv.Racks {
		n := was[rack.Name]
		slice, ok := sliceIn(have.parts, rack.Name, n)
		text := slice.Data
		if !unchanged {
			text = document.FormatAccepted(inv.Slice(rack.Name))
		}
		if !ok || !bytes.Equal(slice.Data, text) {
			n = have.free(rack.Name, generation, text)
		}
		next := part(inv.Name, sliceName(rack.Name, n), text, n)
		next.Immutable = new(true)
		parts = append(parts, next)
		racks.WriteString(rack.Name + " " + strconv.FormatInt(n, 10) + "\n")
	}
	if unchanged {
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

func part(inventoryName, name string, text []byte, generation int64) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: map[string]string{keyInventory: string(text)}}
	cm.Name = name
	cm.Labels = map[string]string{LabelAccepted: inventoryName}
	cm.Annotations = map[string]string{AnnotationGeneration: strconv.FormatInt(generation, 10), inventory.AnnotationFormat: "1"}
	return cm
}

// sliceIn returns what a generation says of a rack; false: nothing there does.
func sliceIn(parts map[string]*v1.ConfigMap, rack string, generation int64) (document.Document, bool) {
	if slice, ok := parts[sliceName(rack, generation)]; ok {
		return documentOf(slice), true
	}
	return inPlace(parts[copyName(rack)], generation)
}

func documentOf(cm *v1.ConfigMap) document.Document {
	return document.Document{Source: documentSource(cm, keyInventory), Data: []byte(cm.Data[keyInventory])}
}

// generationOf is 0 where the annotation is missing or was tampered with.
func generationOf(cm *v1.ConfigMap) int64 {
	n, err := strconv.ParseInt(cm.Annotations[AnnotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// listed are the racks, with the generations of their slices, that the common ConfigMap lists
// under a key, in its order; none where there is no such ConfigMap.
func listed(common *v1.ConfigMap, key string) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if common == nil {
			return
		}
		for line := range strings.Lines(common.Data[key]) {
			rack, n, _ := strings.Cut(strings.TrimSpace(line), " ")
			if generation, err := strconv.ParseInt(n, 10, 64); err == nil && !yield(rack, generation) {
				return
			}
		}
	}
}

// free returns the first generation, from one on, of which nothing says anything else of a
// rack than the text: what an edit left that failed half-way is not written over.
func (a accepted) free(rack string, generation int64, text []byte) int64 {
	for {
		slice, there := sliceIn(a.parts, rack, generation)
		if !there || bytes.Equal(slice.Data, text) {
			return generation
		}
		generation++
	}
}

// notStorable says what of an inventory does not fit into its ConfigMap, or would not be read again as it
// is, once have is stored.
func notStorable(inv *inventory.Inventory, have accepted) inventory.Problems {
	parts := render(inv, have)
	if problems := tooLarge(inv, parts); len(problems) > 0 {
		return problems
	}
	return notReadBack(inv, have, parts)
}

// notReadBack is the problem of an inventory that these ConfigMaps would not give back; none where that is
// stored already, or what is there is kept.
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
		n := 0
		for _, v := range part.Data {
			n += len(v)
		}
		switch {
		case n <= maxStored:
		case i < len(inv.Racks):
			problems = append(problems, edit.TooLargeRack(inv.Racks[i].Name, len(inv.Racks[i].Machines), n, maxStored))
		default:
			problems = append(problems, edit.TooLargeCommon(n, maxStored))
		}
	}
	return problems
}
