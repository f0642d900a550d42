package edit

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestTheOrderOfDocumentsNeverMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := inventorytest.DrawPlan(t, "plan").Documents()
		one, problems := document.Load(docs...)
		other, problems2 := document.Load(rapid.Permutation(docs).Draw(t, "order")...)
		if problems.String() != problems2.String() || !document.Equal(one, other) {
			t.Fatalf("%s\n%v\nis not\n%s\n%v", document.FormatAccepted(one), problems, document.FormatAccepted(other), problems2)
		}
	})
}

func TestAnInventoryDoesNotDifferFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := inventorytest.DrawPlan(t, "plan")
		if d := Diff(p.Parse(t), p.Parse(t)); !d.Empty() {
			t.Fatal(d)
		}
	})
}

func TestTheDifferenceIsEmptyOnlyForEqualInventories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := inventorytest.DrawPlan(t, "a").Parse(t), inventorytest.DrawPlan(t, "b").Parse(t)
		if Diff(a, b).Empty() && !document.Equal(a, b) {
			t.Fatalf("no difference between\n%s\nand\n%s", document.Format(a), document.Format(b))
		}
	})
}

func TestCarvedBlocksNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := inventory.Carve(inventorytest.DrawPlan(t, "plan").Parse(t), nil)
		if inv == nil {
			t.Fatal(problems)
		}
		noOverlap(t, inv)
	})
}

func noOverlap(t *rapid.T, inv *inventory.Inventory) {
	var racks, machines []netip.Prefix
	for _, r := range inv.Racks {
		racks = append(racks, r.PodCIDRs...)
		for _, m := range r.Machines {
			machines = append(machines, m.PodCIDRs...)
		}
	}
	for _, all := range [][]netip.Prefix{racks, machines} {
		for i, a := range all {
			for _, b := range all[i+1:] {
				if a.Overlaps(b) {
					t.Fatalf("%s and %s overlap in\n%s", a, b, document.FormatAccepted(inv))
				}
			}
		}
	}
}

func TestNoBlockEverMovesWhenTheInventoryIsEdited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inForce *inventory.Inventory
		for i := range 4 {
			next, problems := admit(inventorytest.DrawPlan(t, fmt.Sprint("edit ", i)).Parse(t), inForce, 100)
			if next == nil {
				t.Fatal(problems)
			}
			noOverlap(t, next)
			for _, r := range racksOf(inForce) {
				for _, m := range r.Machines {
					now, ok := next.Machine(m.Name)
					if !ok || !slices.Equal(now.PodCIDRs, m.PodCIDRs) {
						t.Fatalf("%s had %v and has %v (there: %v)", m.Name, m.PodCIDRs, now.PodCIDRs, ok)
					}
				}
			}
			inForce = next
		}
	})
}

func racksOf(inv *inventory.Inventory) []inventory.Rack {
	if inv == nil {
		return nil
	}
	return inv.Racks
}

func TestNoSequenceOfEditsWithoutRetiredLosesAMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inForce *inventory.Inventory
		known := map[string]bool{}
		for i := range 5 {
			allow := rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "allowed")
			if next, _ := admit(inventorytest.DrawPlan(t, fmt.Sprint("edit ", i)).Parse(t), inForce, allow); next != nil {
				inForce = next
			}
			for _, r := range racksOf(inForce) {
				for _, m := range r.Machines {
					known[m.Name] = true
				}
			}
			for name := range known {
				m, err := inForce.MachineOf(inventory.NodeIdentity{ProviderID: "plinth://" + name, Name: name})
				if err != nil || m.State == inventory.StateRetired {
					t.Fatalf("%s is lost: %v, %v", name, m.State, err)
				}
			}
		}
	})
}

func TestAcceptedSlicesTogetherAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := admit(inventorytest.DrawPlan(t, "next").Parse(t), inventorytest.DrawPlan(t, "in force").Parse(t), 100)
		if inv == nil {
			t.Fatal(problems)
		}
		parts := []document.Document{{Source: "common", Data: document.FormatAccepted(inv.Common())}}
		for _, r := range inv.Racks {
			parts = append(parts, document.Document{Source: r.Name, Data: document.FormatAccepted(inv.Slice(r.Name))})
		}
		again, problems := document.ParseAccepted(parts...)
		if again == nil || !document.Equal(again, inv) {
			t.Fatalf("%v\n%s", problems, document.FormatAccepted(inv))
		}
	})
}

func TestTheWayAMachineIsSeenByItsRackIsTheWayItIsSeenByAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, problems := inventory.Carve(inventorytest.DrawPlan(t, "plan").Parse(t), nil)
		if inv == nil {
			t.Fatal(problems)
		}
		for _, r := range inv.Racks {
			part, problems := document.ParseAccepted(document.Document{Source: "common", Data: document.FormatAccepted(inv.Common())}, document.Document{Source: "slice", Data: document.FormatAccepted(inv.Slice(r.Name))})
			if part == nil {
				t.Fatal(problems)
			}
			for _, m := range r.Machines {
				if a, b := inv.Sessions(m), part.Sessions(m); !slices.Equal(a, b) {
					t.Fatalf("%s has sessions\n%v\nin its slice\n%v", m.Name, a, b)
				}
				if a, b := fmt.Sprint(inv.Labels(m)), fmt.Sprint(part.Labels(m)); a != b {
					t.Fatalf("%s has labels\n%v\nin its slice\n%v", m.Name, a, b)
				}
			}
		}
	})
}
