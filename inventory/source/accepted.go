package source

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// accepted is an inventory as it is stored in the cluster.
type accepted struct {
	inventory  *inventory.Inventory // in force; nil: nothing was accepted yet
	stored     *inventory.Inventory // what the ConfigMaps say; nil: nothing that can be read
	generation int64
	parts      map[string]*v1.ConfigMap // by name
	rest       *inventory.Inventory     // what is known of one that cannot be read as a whole; nil: nothing
}

// documents returns the documents of the ConfigMap that lists the slices, and of the slices.
func (a accepted) documents(common *v1.ConfigMap) ([]document.Document, error) {
	if common == nil {
		return nil, fmt.Errorf("%w: there is no configmap %s", ErrUnreadable, AcceptedName)
	}
	if err := a.spoilt(common); err != nil {
		return nil, err
	}
	docs := []document.Document{documentOf(common)}
	for rack, n := range listed(common, keyRacks) {
		slice, ok := sliceIn(a.parts, rack, n)
		if !ok {
			return nil, fmt.Errorf("%w: there is no configmap %s", ErrUnreadable, sliceName(rack, n))
		}
		docs = append(docs, slice)
	}
	return docs, nil
}

func parseAccepted(docs []document.Document) (*inventory.Inventory, error) {
	inv, problems := document.ParseAccepted(docs...)
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return inv, nil
}

// unreachable reports whether a machine has no address left. An earlier version stored such machines so that
// it could not read them itself.
func unreachable(m inventory.Machine) bool { return m.Held && len(m.Addresses) == 0 }

// lacks reports whether a ConfigMap is not stored as it is to be.
func (a accepted) lacks(want *v1.ConfigMap) bool {
	have := a.parts[want.Name]
	return have == nil || !maps.Equal(want.Data, have.Data) || !maps.Equal(want.Labels, have.Labels) || generationOf(want) != generationOf(have)
}

// with returns the stored state with inv, which has the same content, as its inventory.
func (a accepted) with(inv *inventory.Inventory) accepted {
	a.inventory, a.stored, a.generation = inv, inv, generationOf(a.parts[AcceptedName])
	return a
}

// sliceIn returns the slice of a rack in a generation; false: there is none.
func sliceIn(parts map[string]*v1.ConfigMap, rack string, generation int64) (document.Document, bool) {
	if slice, ok := parts[sliceName(rack, generation)]; ok {
		return documentOf(slice), true
	}
	return inPlace(parts[copyName(rack)], generation)
}

// free returns the first generation, from one on, of which a rack has no slice with another
// text: a slice that an edit left that failed half-way is not written over.
func (a accepted) free(rack string, generation int64, text []byte) int64 {
	for {
		slice, there := sliceIn(a.parts, rack, generation)
		if !there || bytes.Equal(slice.Data, text) {
			return generation
		}
		generation++
	}
}

// spoilt returns the error of a ConfigMap that lists the slices and is incomplete though it can be parsed: with keys
// missing it would be read as an inventory without pools, or without machines.
func (a accepted) spoilt(common *v1.ConfigMap) error {
	racks, there := common.Data[keyRacks]
	n := 0
	for range listed(common, keyRacks) {
		n++
	}
	if !there && len(a.slices()) > 0 || n != len(slices.Collect(strings.Lines(racks))) {
		return fmt.Errorf("%w: key %s of configmap %s does not list the racks", ErrUnreadable, keyRacks, common.Name)
	}
	return checkText(common)
}

// slices returns the slices of racks, and their copies, the latest generation first.
func (a accepted) slices() (out []*v1.ConfigMap) {
	for name, cm := range a.parts {
		if name != PreviousName && (strings.HasPrefix(name, AcceptedName+".") || strings.HasPrefix(name, copyName(""))) {
			out = append(out, cm)
		}
	}
	slices.SortFunc(out, func(a, b *v1.ConfigMap) int {
		return cmp.Or(cmp.Compare(generationOf(b), generationOf(a)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// latest returns the highest generation that any of the ConfigMaps is of: the next one is higher.
func (a accepted) latest() (n int64) {
	for _, cm := range a.parts {
		n = max(n, generationOf(cm))
	}
	return n
}

// allows returns the annotation [edit.AnnotationAllow] of the ConfigMap that lists the slices.
func (a accepted) allows() string {
	if common := a.parts[AcceptedName]; common != nil {
		return common.Annotations[edit.AnnotationAllow]
	}
	return ""
}
