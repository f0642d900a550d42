package inventory_test

import (
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// A program that knows fewer languages than the one that accepted the inventory has to
// read it all the same, or an upgrade would leave the cluster without one.
func TestAnAcceptedInventoryIsReadWhateverItsRoutersRun(t *testing.T) {
	inv, problems := document.Load(inventorytest.File(t, "home.yaml"))
	if inv == nil {
		t.Fatal(problems)
	}
	inv.Routers[0].OS = "of-another-age"
	stored := document.FormatAccepted(inv)
	if !strings.Contains(string(stored), "of-another-age") {
		t.Fatalf("what is stored does not have it:\n%s", stored)
	}
	back, problems := document.ParseAccepted(document.Document{Source: "stored", Data: stored})
	if back == nil || back.Routers[0].OS != "of-another-age" {
		t.Errorf("got %v, %v", back, problems)
	}
}

func TestLanguagesAreSorted(t *testing.T) {
	if l := inventory.Languages(); len(l) == 0 || !slices.IsSorted(l) {
		t.Errorf("got %v", l)
	}
}
