package document_test

import (
	"os"
	"path/filepath"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// seed gives the fuzzer every example and every file of testdata.
func seed(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "../inventorytest/*.yaml", "../../examples/*/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}

func FuzzParsePrintParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, problems := document.Parse(document.Document{Source: "fuzz", Data: data})
		if (inv == nil) != (problems.Err() != nil) {
			t.Fatalf("inventory: %v, problems: %v", inv != nil, problems)
		}
		if inv == nil {
			return
		}
		again, problems := document.Parse(document.Document{Source: "printed", Data: document.Format(inv)})
		if again == nil || !document.Equal(again, inv) {
			t.Fatalf("%v\nprinted\n%s\nwas\n%s", problems, document.Format(inv), document.FormatAccepted(inv))
		}
		accepted, problems := document.ParseAccepted(document.Document{Source: "accepted", Data: document.FormatAccepted(inv)})
		if accepted == nil || !document.Equal(accepted, inv) {
			t.Fatalf("%v\naccepted\n%s", problems, document.FormatAccepted(inv))
		}
	})
}

func FuzzParseAccepted(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, problems := document.ParseAccepted(document.Document{Source: "fuzz", Data: data})
		if (inv == nil) != (problems.Err() != nil) {
			t.Fatalf("inventory: %v, problems: %v", inv != nil, problems)
		}
		if inv != nil {
			_, _ = inventory.Carve(inv, inv)
		}
	})
}

// fuzzText holds the law that what parses prints as something that parses to the same.
func fuzzText[T interface {
	comparable
	String() string
}](f *testing.F, parse func(string) (T, error), seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parse(s)
		if err != nil {
			return
		}
		again, err := parse(v.String())
		if err != nil || again != v {
			t.Fatalf("%q is %v, which is %v, %v", s, v, again, err)
		}
	})
}

func FuzzASN(f *testing.F) {
	fuzzText(f, inventory.ParseASN, "65010", "65010.10", "0", "4294967294", "1.", "+1", "00")
}

func FuzzCommunity(f *testing.F) {
	fuzzText(f, inventory.ParseCommunity, "65010:100", "large:65010:1:7", "no-export", "1:2:3", "large:::")
}

func FuzzRange(f *testing.F) {
	fuzzText(f, document.ParseRange, "203.0.113.0/25", "203.0.113.1-203.0.113.9", "2001:db8::/64", "10.0.0.1", "10.0.0.1/32", "::ffff:1.2.3.4")
}

func FuzzLimit(f *testing.F) {
	fuzzText(f, inventory.ParseLimit, "1", "5%", "100%", "-1", "%")
}

func FuzzMachineOf(f *testing.F) {
	for _, s := range []string{"plinth://SN-7CZ1234", "k3s://w1", "plinth://", "aws:///x", ""} {
		f.Add(s, "4C4C4544-0032-3010-8053-B7C04F585931", "w1")
	}
	inv := inventorytest.Load(f, "full.yaml")
	f.Fuzz(func(t *testing.T, providerID, uuid, name string) {
		if m, err := inv.MachineOf(inventory.NodeIdentity{ProviderID: providerID, SystemUUID: inventory.ReportedUUID(uuid), Name: name}); (m.Name == "") != (err != nil) {
			t.Fatal(m, err)
		}
	})
}
