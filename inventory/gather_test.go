package inventory

import (
	"testing"

	"pgregory.net/rapid"
)

// TestWhatIsGatheredOfAllPartsIsTheWhole: in whatever order the slices come.
func TestWhatIsGatheredOfAllPartsIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := Carve(drawPlan(t, "plan").parse(t), nil)
		if inv == nil {
			t.Fatal(problems)
		}
		var parts []*Inventory
		for _, doc := range rapid.Permutation(stored(inv)[1:]).Draw(t, "order") {
			part, problems := ParseAccepted(doc)
			if part == nil {
				t.Fatal(problems)
			}
			parts = append(parts, part)
		}
		common, _ := ParseAccepted(Document{"common", inv.Common().FormatAccepted()})
		if got := Gather(common, parts...); !got.Equal(inv) {
			t.Fatalf("gathered is\n%s\nof\n%s", got.FormatAccepted(), inv.FormatAccepted())
		}
	})
}

// TestWhatOnlyAnOlderPartHasIsGatheredUnlessItIsRetired there, or a later part has it in another rack.
func TestWhatOnlyAnOlderPartHasIsGatheredUnlessItIsRetired(t *testing.T) {
	part := func(spec string) *Inventory {
		t.Helper()
		inv, problems := ParseAccepted(specDocument(spec))
		if inv == nil {
			t.Fatal(problems)
		}
		return inv
	}
	got := Gather(nil,
		part("racks: [{name: r2, machines: [{name: w1, addresses: [10.0.0.1]}]}]"),
		part("racks: [{name: r1, row: new, machines: [{name: w2, addresses: [10.0.0.2]}]}]"),
		part("racks: [{name: r1, row: old, machines: [{name: w1, addresses: [10.0.0.1]}, {name: w3, addresses: [10.0.0.3]}, {name: w4, state: retired}]}]"))
	if r1, _ := got.Rack("r1"); got.Size() != 3 || len(r1.Machines) != 2 || r1.Row != "new" || got.Name != "dc1" {
		t.Errorf("gathered is\n%s", got.FormatAccepted())
	}
}
