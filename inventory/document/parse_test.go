package document_test

import (
	"testing"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestParsePrintParseIsTheIdentity(t *testing.T) {
	for _, name := range []string{"home.yaml", "full.yaml", "pools.yaml"} {
		inv := inventorytest.Load(t, name)
		again, problems := document.Load(document.Document{Source: "printed", Data: document.Format(inv)})
		if again == nil {
			t.Fatalf("%v\n%s", problems, document.Format(inv))
		}
		if !document.Equal(again, inv) {
			t.Errorf("%s: printed\n%s\nbecame\n%s", name, document.FormatAccepted(inv), document.FormatAccepted(again))
		}
		parts := []document.Document{{Source: "common", Data: document.FormatAccepted(inv.Common())}}
		for _, r := range inv.Racks {
			parts = append(parts, document.Document{Source: r.Name, Data: document.FormatAccepted(inv.Slice(r.Name))})
		}
		accepted, problems := document.ParseAccepted(parts...)
		if accepted == nil {
			t.Fatal(problems)
		}
		if !document.Equal(accepted, inv) {
			t.Errorf("%s: slices of\n%s\nbecame\n%s", name, document.FormatAccepted(inv), document.FormatAccepted(accepted))
		}
	}
}
