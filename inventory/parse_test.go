package inventory

import (
	"os"
	"path/filepath"
	"testing"
)

// documents reads files of testdata.
func documents(t testing.TB, names ...string) []Document {
	t.Helper()
	var out []Document
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join("testdata", n))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Document{Source: n, Data: data})
	}
	return out
}

// mustLoad loads files of testdata that have no error.
func mustLoad(t testing.TB, names ...string) *Inventory {
	t.Helper()
	inv, problems := Load(documents(t, names...)...)
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

func TestParsePrintParseIsTheIdentity(t *testing.T) {
	for _, name := range []string{"home.yaml", "full.yaml", "pools.yaml"} {
		inv := mustLoad(t, name)
		again, problems := Load(Document{Source: "printed", Data: inv.Format()})
		if again == nil {
			t.Fatalf("%v\n%s", problems, inv.Format())
		}
		if !again.Equal(inv) {
			t.Errorf("%s: printed\n%s\nbecame\n%s", name, inv.FormatAccepted(), again.FormatAccepted())
		}
		parts := []Document{{Source: "common", Data: inv.Common().FormatAccepted()}}
		for _, r := range inv.Racks {
			parts = append(parts, Document{Source: r.Name, Data: inv.Slice(r.Name).FormatAccepted()})
		}
		accepted, problems := ParseAccepted(parts...)
		if accepted == nil {
			t.Fatal(problems)
		}
		if !accepted.Equal(inv) {
			t.Errorf("%s: slices of\n%s\nbecame\n%s", name, inv.FormatAccepted(), accepted.FormatAccepted())
		}
	}
}
