package document_test

import (
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestAliasesCannotMakeADocumentEndless(t *testing.T) {
	spec := "x-a: &a {k0: v"
	for i := range 200 {
		spec += ", k" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": v"
	}
	spec += "}\nracks:\n- name: r01\n  machines:\n"
	for range 200 {
		spec += "  - {name: w, addresses: [10.1.1.1], labels: *a}\n"
	}
	_, problems := document.Parse(inventorytest.Document(spec))
	for _, p := range problems {
		if p.Code == inventory.TooManyAliases {
			return
		}
	}
	t.Error(len(problems), "problems, and none of them is about aliases")
}

func TestAnchorsAndMergesAreUnderstood(t *testing.T) {
	inv := inventorytest.Of(t, `
x-worker: &worker {type: r640, taints: &t [{key: a, effect: NoSchedule}]}
racks:
	- name: r01
		machines:
			- {<<: *worker, name: w1, addresses: [10.1.1.1]}
			- {<<: [*worker, {type: other, reason: merged}], name: w2, taints: *t, addresses: [10.1.1.2]}
			- {name: w3, <<: *worker, type: own, addresses: [10.1.1.3]}
`)
	for name, want := range map[string]string{"w1": "r640", "w2": "r640", "w3": "own"} {
		if m, _ := inv.Machine(name); m.Type != want || len(m.Taints) != 1 {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m, _ := inv.Machine("w2"); m.Reason != "merged" {
		t.Errorf("%+v", m)
	}
}

func TestAnOlderProgramReadsWhatANewerOneWrote(t *testing.T) {
	doc := inventorytest.Document("racks:\n- name: r01\n  colour: red\n  machines: [{name: w1, addresses: [10.1.1.1], held: true, wheels: 4}]\nfloors: [1]\n")
	inv, problems := document.ParseAccepted(doc)
	if inv == nil {
		t.Fatal(problems)
	}
	if m, _ := inv.Machine("w1"); !m.Held {
		t.Error("w1 is not held")
	}
	if inv, _ := document.Parse(doc); inv != nil {
		t.Error("people may write what only Plinth writes")
	}
}
