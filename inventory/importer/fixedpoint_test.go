package importer

import (
	"bytes"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// checkFixedPoint holds an inventory that was written against what may be done with it: it is valid; and formatted, split into a
// document for each section, or kept in the cluster, it is read as the same one. Formatted it may have another order, for an import keeps that of
// its source, and says what an import leaves out because it goes without saying.
func checkFixedPoint(t rapid.TB, text []byte) {
	t.Helper()
	inv, problems := document.Parse(document.Document{Source: "written", Data: text})
	if problems.Err() != nil {
		t.Fatalf("is not valid: %v\n%s", problems, text)
	}
	formatted := document.Format(inv)
	for _, c := range []struct {
		name string
		read func(...document.Document) (*inventory.Inventory, inventory.Problems)
		docs []document.Document
	}{
		{"formatted", document.Parse, []document.Document{{Source: "formatted", Data: formatted}}},
		{"a document a section", document.Parse, sectionsOf(t, formatted)},
		{"kept in the cluster", document.ParseAccepted, []document.Document{{Source: "accepted", Data: document.FormatAccepted(inv)}}},
	} {
		again, problems := c.read(c.docs...)
		if problems.Err() != nil {
			t.Fatalf("%s, it is not valid: %v\n%s", c.name, problems, text)
		}
		if got := document.Format(again); !bytes.Equal(got, formatted) {
			t.Fatalf("%s, it is another one:\n%s\nbefore:\n%s", c.name, got, formatted)
		}
	}
}

// sectionsOf are documents of one section each, which are merged when they are read.
func sectionsOf(t rapid.TB, text []byte) (docs []document.Document) {
	t.Helper()
	var all struct {
		APIVersion, Kind string
		Metadata         map[string]string
		Spec             yaml.Node
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	head := map[string]any{"apiVersion": "plinth.dev/v1alpha1", "kind": "Inventory", "metadata": all.Metadata}
	add := func(spec any) {
		head["spec"] = spec
		part, err := yaml.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, document.Document{Source: all.Metadata["name"], Data: part})
	}
	for i := 0; i+1 < len(all.Spec.Content); i += 2 {
		add(map[string]*yaml.Node{all.Spec.Content[i].Value: all.Spec.Content[i+1]})
	}
	if len(docs) == 0 {
		add(map[string]string{})
	}
	return docs
}
