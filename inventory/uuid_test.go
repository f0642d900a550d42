package inventory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// A law: however a UUID is written, it is one number, in `match` and of a Node.
func TestAUUIDIsOneNumberHoweverItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "UUID")
		dashed := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		written := rapid.SampledFrom([]func(string) string{
			strings.Clone, strings.ToUpper, func(s string) string { return strings.ReplaceAll(s, "-", "") },
			func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "")) },
		}).Draw(t, "form")(dashed)
		if got, ok := inventory.ParseUUID(written); !ok || got.String() != dashed {
			t.Fatalf("written as %q it is read as %q, %v", written, got, ok)
		}
		if got := inventory.ReportedUUID(written); got.String() != dashed {
			t.Fatalf("reported as %q it is read as %q", written, got)
		}
		text, err := json.Marshal(inventory.ReportedUUID(written))
		var back inventory.UUID
		if err != nil || json.Unmarshal(text, &back) != nil || back != inventory.ReportedUUID(dashed) {
			t.Fatalf("%s is read back as %q, %v", text, back, err)
		}
	})
}

func TestWhatIsNoUUIDIsThatOfNoMachine(t *testing.T) {
	const board = "4c4c4544-0032-3010-8053-b7c04f585931"
	inv, problems := document.Load(document.Document{Source: "one.yaml", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: one}\nspec:\n  bgp: {asn: 65010}\n" +
		"  racks: [{name: r1, machines: [{name: w1, addresses: [10.1.0.11], match: {systemUUID: 4C4C454400323010" + "8053B7C04F585931}}]}]\n")})
	if inv == nil {
		t.Fatal(problems)
	}
	if m, _ := inv.Machine("w1"); m.SystemUUID.String() != board {
		t.Errorf("w1 has %q, want %s", m.SystemUUID, board)
	}
	for reported, want := range map[string]string{
		board: "w1", strings.ToUpper(board): "w1", "4c4c4544003230108053b7c04f585931": "w1",
		"": "", "Not Settable": "", "00000000-0000-0000-0000-000000000000": "", "4c4c4544003230-108053b7c04f585931": "",
	} {
		if m, err := inv.MachineOf(inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(reported), Name: "another"}); m.Name != want || (err == nil) != (want != "") {
			t.Errorf("a Node that reports %q is %q, %v", reported, m.Name, err)
		}
	}
	for reported, advice := range map[string]string{
		"Not Settable": "w1 now, leave out match, for that is no UUID", "00000000000000000000000000000009": "w1 now, write match: {systemUUID: 00000000-0000-0000-0000-000000000009}",
	} {
		if _, err := inv.MachineOf(inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(reported), Name: "w1"}); err == nil || !strings.Contains(err.Error(), advice) {
			t.Errorf("a Node of the machine's name that reports %q is told %v, want %q", reported, err, advice)
		}
	}
}

// Boards without a UUID report all zeros or all Fs. As `match` such a number named a machine by every one of them.
func TestAUUIDOfBoardsWithoutOneDecidesNothing(t *testing.T) {
	for _, absent := range []string{"00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", strings.Repeat("0", 32), strings.Repeat("f", 32)} {
		doc := func(match string) document.Document {
			return document.Document{Source: "one.yaml", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: one}\nspec:\n  bgp: {asn: 65010}\n" +
				"  routers: [{name: tor1, address: 10.1.0.1, asn: 65000}]\n  racks: [{name: r1, machines: [{name: w1, addresses: [10.1.0.11]" + match + "}]}]\n")}
		}
		inv, problems := document.Load(doc(", match: {systemUUID: \"" + absent + "\"}"))
		if inv == nil || len(problems) != 1 || problems[0].Code != inventory.SystemUUIDAbsent || problems[0].Severity != inventory.Warning {
			t.Fatalf("%s is read with %v", absent, problems)
		}
		m, _ := inv.Machine("w1")
		if plain, _ := document.Load(doc("")); !m.SystemUUID.IsZero() || string(document.Format(inv)) != string(document.Format(plain)) {
			t.Errorf("%s is kept as %q: %s", absent, m.SystemUUID, document.Format(inv))
		}
		reports := func(name, provider string) inventory.NodeIdentity {
			return inventory.NodeIdentity{Name: name, ProviderID: provider, SystemUUID: inventory.ReportedUUID(absent)}
		}
		if m, err := inv.Identify(reports("stranger", "")); err == nil {
			t.Errorf("a Node that reports %s is %s", absent, m.Name)
		}
		for _, n := range []inventory.NodeIdentity{reports("w1", ""), reports("stranger", "plinth://w1"), reports("w1", "k3s://w1")} {
			if m, err := inv.Identify(n); m.Name != "w1" || err != nil {
				t.Errorf("%+v is %q, %v", n, m.Name, err)
			}
		}
		known, _ := document.Load(doc(", match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f585931}"))
		m, err := known.Identify(reports("w1", ""))
		if err != nil || len(m.Mismatches(inventory.NodeState{NodeIdentity: reports("w1", ""), Ready: true})) > 0 {
			t.Errorf("a Node that reports %s by the name of a machine with a UUID is %q, %v, %v", absent, m.Name, err, m.Mismatches(inventory.NodeState{NodeIdentity: reports("w1", "")}))
		}
		var stored inventory.UUID
		if err := json.Unmarshal([]byte(`"`+absent+`"`), &stored); err != nil || !stored.IsZero() {
			t.Errorf("what an older version stored as %s is read as %q, %v", absent, stored, err)
		}
	}
}
