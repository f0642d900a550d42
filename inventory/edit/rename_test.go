package edit

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

const (
	boardOne = "00000000-0000-0000-0000-000000000001"
	boardTwo = "00000000-0000-0000-0000-000000000002"
)

// rackOf is a rack with these machines, whose pods have CIDRs.
func rackOf(t *testing.T, machines string) *inventory.Inventory {
	t.Helper()
	return inventorytest.Parsed(t, "podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}\nsafety: {maxRemoved: 0}\nracks: [{name: r0, machines: ["+machines+"]}]")
}

// TestAMachineUnderAnotherNameKeepsItsNode, if it has the same board or addresses, nobody says otherwise, and no other
// machine is meant.
func TestAMachineUnderAnotherNameKeepsItsNode(t *testing.T) {
	const w1, w2 = "{name: w1, addresses: [10.10.0.11], match: {systemUUID: " + boardOne + "}}, ", "{name: w2, addresses: [10.10.0.12]}"
	for name, tt := range map[string]struct {
		next  string
		as    string // the name of the machine that Node w1 is; empty: of none
		by    string // what it is known by; empty: it is not told of as renamed
		error string
	}{
		"the same board and addresses": {"{name: w9, addresses: [10.10.0.11], match: {systemUUID: " + boardOne + "}}, " + w2, "w9", "the same board and addresses", ""},
		"the same board":               {"{name: w9, addresses: [10.10.0.19], match: {systemUUID: " + boardOne + "}}, " + w2, "w9", "the same board", ""},
		"the same addresses":           {"{name: w9, addresses: [10.10.0.11]}, " + w2, "w9", "the same addresses", ""},
		"another board":                {"{name: w9, addresses: [10.10.0.11], match: {systemUUID: " + boardTwo + "}}, " + w2, "w1", "", ""},
		"an id of its own":             {"{name: w9, id: w9, addresses: [10.10.0.11]}, " + w2, "w1", "", ""},
		"nothing in common":            {"{name: w9, addresses: [10.10.0.19]}, " + w2, "w1", "", ""},
		"it is mentioned still":        {w1 + w2 + ", {name: w9, addresses: [10.10.0.19], match: {systemUUID: " + boardTwo + "}}", "w1", "", ""},
		"a new machine has its name": {"{name: w9, id: w1, addresses: [10.10.0.11]}, {name: w1, id: other, addresses: [10.10.0.19]}, " + w2,
			"w9", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, problems := Admit(rackOf(t, w1+w2), nil)
			if before == nil {
				t.Fatal(problems)
			}
			next, problems := Admit(rackOf(t, tt.next), before)
			if next == nil {
				t.Fatal(problems)
			}
			told := ""
			for _, p := range problems {
				if p.Code == inventory.MachineRenamed {
					told = p.Message
				}
			}
			if tt.by == "" && told != "" || !strings.Contains(told, tt.by) {
				t.Errorf("it is told of as %q", told)
			}
			m, err := next.Identify(inventory.NodeIdentity{ProviderID: "plinth://w1", Name: "w1x", SystemUUID: inventory.UUID{}})
			if m.Name != tt.as {
				t.Errorf("its Node is machine %q (%v), want %q", m.Name, err, tt.as)
			}
			if len(m.PodCIDRs) != 1 || m.PodCIDRs[0].String() != "10.244.0.0/24" {
				t.Errorf("its pod CIDRs are %v", m.PodCIDRs)
			}
			again, problems := Admit(rackOf(t, tt.next), next)
			if again == nil || !document.Equal(again, next) {
				t.Errorf("the same edit again leads elsewhere: %v\n%s", problems, Diff(next, again))
			}
			read, problems := document.ParseAccepted(document.Document{Source: "accepted", Data: document.FormatAccepted(next)})
			if read == nil || !document.Equal(read, next) {
				t.Errorf("what was accepted reads back as something else: %v", problems)
			}
		})
	}
}

// TestTheNameThatAMachineHadIsNoIDOfAnother: its Node has that in its provider ID.
func TestTheNameThatAMachineHadIsNoIDOfAnother(t *testing.T) {
	before, _ := Admit(rackOf(t, "{name: w1, addresses: [10.10.0.11]}"), nil)
	renamed, problems := Admit(rackOf(t, "{name: w9, addresses: [10.10.0.11]}"), before)
	if renamed == nil {
		t.Fatal(problems)
	}
	const next = "{name: w9, addresses: [10.10.0.11]}, {name: w1, %saddresses: [10.10.0.12]}"
	if inv, problems := Admit(rackOf(t, strings.Replace(next, "%s", "", 1)), renamed); inv != nil || len(problems) != 1 ||
		problems[0].Code != inventory.ProviderIDTwice || problems[0].Path != "spec.racks[r0].machines[w1]" || !strings.Contains(problems[0].Message, "machine w9, which was called so before") {
		t.Errorf("%v", problems)
	}
	if inv, problems := Admit(rackOf(t, strings.Replace(next, "%s", "id: w1-2, ", 1)), renamed); inv == nil {
		t.Errorf("with an id of its own: %v", problems)
	}
}

func TestAMachineThatIsRenamedIsToldOfAsOne(t *testing.T) {
	const rest = "bgp: {asn: 65010}\nrouters: [{name: tor, address: 10.1.0.1, asn: 65101}]\nracks: [{name: r1, machines: [{name: b, addresses: [10.1.1.2]}, "
	before, _ := Admit(inventorytest.Parsed(t, rest+"{name: a, addresses: [10.1.1.1], type: small}]}]"), nil)
	after, problems := Admit(inventorytest.Parsed(t, rest+"{name: c, addresses: [10.1.1.1], type: large}]}]"), before)
	if after == nil {
		t.Fatal(problems)
	}
	want := `machine a of rack r1 is called c now: the same addresses. Its Node, providerID and pod CIDRs stay
  type: small -> large`
	if got := Diff(before, after).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if l := LossesOf(after, before); len(l.Removed)+len(l.Drained) > 0 {
		t.Errorf("it counts as lost: %+v", l)
	}
	if r := RetermedBy(after, before); len(r) > 0 {
		t.Errorf("sessions end: %v", r)
	}
}
