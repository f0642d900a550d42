package source

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// Edit is all that stands in a source at one moment.
type Edit struct {
	Documents     []inventory.Document
	Carriers      []Carrier          // the ConfigMaps that they stand in; none for files
	AllowRemovals int                // machines that this edit may drop or retire, whatever safety.maxRemoved says
	Problems      inventory.Problems // of the carriers; with an error among them the edit cannot be taken up
}

// same reports whether two edits would be judged alike.
func (e Edit) same(other Edit) bool {
	return e.AllowRemovals == other.AllowRemovals && slices.Equal(e.Carriers, other.Carriers) &&
		slices.EqualFunc(e.Documents, other.Documents, sameDocument) && e.Problems.String() == other.Problems.String()
}

// Carrier is a ConfigMap that documents stand in.
type Carrier struct {
	v1.ObjectReference
	Inventory string // its label, which says the name of the inventory
}

// Source hands out what people wrote, each time that it changes.
type Source interface {
	// Run calls set with what stands in the source, once it is known and after
	// each change, until ctx ends. A burst of changes is one call.
	Run(ctx context.Context, set func(Edit)) error
}
