package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// Edit is the content of a source at one moment.
type Edit struct {
	Documents []document.Document
	Carriers  []Carrier          // the ConfigMaps that they stand in; none for files
	Allowance edit.Allowance     // what this edit may take away, whatever the inventory in force says
	Problems  inventory.Problems // of the carriers; with an error among them the edit cannot be taken up

	// PassedOver names what stood in files beside inventories and is none: the kind of a document,
	// or the file of one that says none; the keys of an inventory's ConfigMap that hold no YAML.
	PassedOver []string

	parts map[string]inventory.Position // where in a file the documents begin that are a part of one, by their source
	// either lists the possible edits, where copies of a ConfigMap have one age: the edit's own problems have an error that names them.
	either []Edit
}

// chosen returns the edit without doubt about copies of one age, where one of them is in force.
func (e Edit) chosen(inForce *inventory.Inventory) Edit {
	if inForce == nil {
		return e
	}
	for _, one := range e.either {
		if said, _ := document.ParseFor(inForce.Name, one.Documents...); said != nil {
			if admitted, _ := edit.Admit(said, inForce); admitted != nil && document.Equal(admitted, inForce) {
				return one
			}
		}
	}
	return e
}

// Join returns the documents and problems of both edits as one.
func (e Edit) Join(other Edit) Edit {
	parts := maps.Clone(e.parts)
	if parts == nil {
		parts = map[string]inventory.Position{}
	}
	maps.Copy(parts, other.parts)
	var either []Edit
	for _, one := range e.either {
		either = append(either, one.Join(other))
	}
	for _, one := range other.either {
		either = append(either, e.Join(one))
	}
	return Edit{
		Documents: append(slices.Clone(e.Documents), other.Documents...), Carriers: append(slices.Clone(e.Carriers), other.Carriers...),
		Allowance: e.Allowance.And(other.Allowance), Problems: append(slices.Clone(e.Problems), other.Problems...),
		PassedOver: append(slices.Clone(e.PassedOver), other.PassedOver...), parts: parts,
		either: either,
	}
}

// InFile returns the place in a file for a place in a document: for a document under a
// ConfigMap's key another one, for all others the same.
func (e Edit) InFile(at inventory.Position) inventory.Position {
	begin, ok := e.parts[at.Source]
	switch {
	case !ok:
		return at
	case begin.Column == 0 || at.Line == 0: // it is not written line by line there
		return inventory.Position{Source: begin.Source, Line: begin.Line}
	}
	return inventory.Position{Source: begin.Source, Line: begin.Line + at.Line - 1, Column: begin.Column + at.Column - 1}
}

// in returns the documents that stand in a ConfigMap.
func (e Edit) in(c Carrier) []document.Document {
	return slices.DeleteFunc(slices.Clone(e.Documents), func(d document.Document) bool {
		return !strings.HasPrefix(d.Source, carrierSource(c.ObjectReference)+"/")
	})
}

// same reports whether two edits would be decided alike.
func (e Edit) same(other Edit) bool {
	return e.Allowance.Equal(other.Allowance) && slices.Equal(e.Carriers, other.Carriers) &&
		slices.EqualFunc(e.Documents, other.Documents, sameDocument) && e.Problems.String() == other.Problems.String() &&
		slices.EqualFunc(e.either, other.either, Edit.same)
}

// content returns a hash of an edit's documents, wherever they stand: an edit that was refused is known by it
// again.
func (e Edit) content() string { return hashOf(e.Documents) }

// Written returns a hash of the documents in the ConfigMaps of an edit, without those of files.
func (e Edit) Written() string {
	var all []document.Document
	for _, one := range append([]Edit{e}, e.either...) {
		for _, c := range one.Carriers {
			all = append(all, one.in(c)...)
		}
	}
	return hashOf(all)
}

func hashOf(documents []document.Document) string {
	texts := make([]string, len(documents))
	for i, d := range documents {
		texts[i] = string(d.Data)
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n---\n")))
	return hex.EncodeToString(sum[:])[:32]
}

// Carrier is a ConfigMap that documents stand in.
type Carrier struct {
	v1.ObjectReference
	Inventory string // its label, which says the name of the inventory
}

// Source hands out edits, each time that its content changes.
type Source interface {
	// Run calls set with the content of the source, once it is known and after
	// each change, until ctx ends. A burst of changes is one call.
	Run(ctx context.Context, set func(Edit)) error
}

// The labels and annotations that people write on the ConfigMaps that carry an inventory.
const (
	LabelInventory = "plinth.dev/inventory" // the inventory's name
)

// carrierSource returns the name of a ConfigMap in problems; a key of it follows after a slash.
func carrierSource(r v1.ObjectReference) string {
	return fmt.Sprintf("configmap/%s/%s", r.Namespace, r.Name)
}

func reference(cm *v1.ConfigMap) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID}
}

func documentSource(cm *v1.ConfigMap, key string) string {
	return carrierSource(reference(cm)) + "/" + key
}

func sameDocument(a, b document.Document) bool {
	return a.Source == b.Source && bytes.Equal(a.Data, b.Data)
}

// carries reports whether a file or a key of that name holds a document.
func carries(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// mislabelled returns an error for each ConfigMap whose label names another
// inventory than its documents.
func mislabelled(carriers []Carrier, name string) inventory.Problems {
	var out inventory.Problems
	for _, c := range carriers {
		if c.Inventory != name {
			out = append(out, inventory.Problem{
				Source: carrierSource(c.ObjectReference), Severity: inventory.Error, Code: inventory.OtherInventory,
				Path: "metadata.labels[" + LabelInventory + "]", Message: labelMismatch,
				Value: c.Inventory, Accepted: name,
			})
		}
	}
	return out
}

const labelMismatch = "the label names another inventory than metadata.name of the documents"

// proposal is an edit as it is decided on, with what the stored ConfigMap allows.
func (e Edit) proposal(allowed string) edit.Proposal {
	return edit.Proposal{
		Documents: e.Documents, Content: e.content(), Problems: e.Problems,
		Allowance:   e.Allowance.And(edit.Allowance{Digests: edit.AllowedBy(allowed)}),
		Mislabelled: func(name string) inventory.Problems { return mislabelled(e.Carriers, name) },
	}
}
