package inventorytest

import (
	"embed"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

//go:embed full.yaml home.yaml links.yaml pools.yaml
var files embed.FS

// File is one of the inventories of this room: full.yaml, home.yaml, links.yaml or pools.yaml.
func File(t testing.TB, name string) document.Document {
	t.Helper()
	data, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return document.Document{Source: name, Data: data}
}

// Load is one of the inventories of this room, carved.
func Load(t testing.TB, name string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(File(t, name))
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// Of loads an inventory whose spec is given, with the indentation of its first line taken off.
func Of(t testing.TB, spec string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(Document(spec))
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// Document returns the document of an inventory whose spec is given, with the indentation of its first line taken off.
func Document(spec string) document.Document {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n")
	for line := range strings.Lines(strings.TrimLeft(spec, "\n")) {
		b.WriteString("  " + strings.ReplaceAll(line, "\t", "  "))
	}
	return document.Document{Source: "spec", Data: []byte(b.String())}
}

// Parsed is an inventory whose spec is given, before it is carved.
func Parsed(t testing.TB, spec string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Parse(Document(spec))
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// Stored are the documents that an inventory is stored in: what all share, then a rack each.
func Stored(inv *inventory.Inventory) []document.Document {
	docs := []document.Document{{Source: "common", Data: document.FormatAccepted(inv.Common())}}
	for _, r := range inv.Racks {
		docs = append(docs, document.Document{Source: r.Name, Data: document.FormatAccepted(inv.Slice(r.Name))})
	}
	return docs
}
