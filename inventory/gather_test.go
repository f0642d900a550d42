package inventory_test

import (
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// TestWhatIsGatheredOfAllPartsIsTheWhole: in whatever order the slices come.
func TestWhatIsGatheredOfAllPartsIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := inventory.Carve(inventorytest.DrawPlan(t, "plan").Parse(t), nil)
		if inv == nil {
			t.Fatal(problems)
		}
		var parts []*inventory.Inventory
		for _, doc := range rapid.Permutation(inventorytest.Stored(inv)[1:]).Draw(t, "order") {
			part, problems := document.ParseAccepted(doc)
			if part == nil {
				t.Fatal(problems)
			}
			parts = append(parts, part)
		}
		common, _ := document.ParseAccepted(document.Document{Source: "common", Data: document.FormatAccepted(inv.Common())})
		if got := inventory.Gather(common, parts...); !document.Equal(got, inv) {
			t.Fatalf("gathered is\n%s\nof\n%s", document.FormatAccepted(got), document.FormatAccepted(inv))
		}
	})
}

// TestWhatOnlyAnOlderPartHasIsGatheredUnlessItIsRetired there, or a later part has it in another rack.
func TestWhatOnlyAnOlderPartHasIsGatheredUnlessItIsRetired(t *testing.T) {
	part := func(spec string) *inventory.Inventory {
		t.Helper()
		inv, problems := document.ParseAccepted(inventorytest.Document(spec))
		if inv == nil {
			t.Fatal(problems)
		}
		return inv
	}
	got := inventory.Gather(nil,
		part("racks: [{name: r2, machines: [{name: w1, addresses: [10.0.0.1]}]}]"),
		part("racks: [{name: r1, row: new, machines: [{name: w2, addresses: [10.0.0.2]}]}]"),
		part("racks: [{name: r1, row: old, machines: [{name: w1, addresses: [10.0.0.1]}, {name: w3, addresses: [10.0.0.3]}, {name: w4, state: retired}]}]"))
	if r1, _ := got.Rack("r1"); got.Size() != 3 || len(r1.Machines) != 2 || r1.Row != "new" || got.Name != "dc1" {
		t.Errorf("gathered is\n%s", document.FormatAccepted(got))
	}
}
