package document

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// whole are the codes of mistakes that only all documents together show.
var whole = []inventory.Code{
	inventory.NoDocument, inventory.UnknownCommunity, inventory.UnknownBFD, inventory.UnknownRouter, inventory.UnknownRack, inventory.UnknownZone, inventory.ExpectNotMet, inventory.NoASN,
}

func TestOneDocumentShowsItsOwnMistakes(t *testing.T) {
	left := map[inventory.Code]bool{}
	for _, b := range badFiles(t) {
		_, all := Load(b.Document)
		found := Check(b.Document)
		switch {
		case len(found) == 0:
			left[all[0].Code] = true
		case found.String() != all.String():
			t.Errorf("%s: Check says\n%v\nand Load\n%v", b.Source, found, all)
		}
	}
	for _, code := range whole {
		if !left[code] {
			t.Errorf("%s is found without the other documents", code)
		}
	}
	for _, code := range []inventory.Code{inventory.BadYAML, inventory.BadAPIVersion, inventory.BadKind, inventory.OtherInventory, inventory.UnknownKey, inventory.KeyTwice, inventory.WrongType, inventory.Conflicting, inventory.BadName, inventory.BadAddress, inventory.BadPrefix, inventory.HostBits, inventory.BadRange, inventory.BadASN} {
		if left[code] {
			t.Errorf("%s is not found in its own document", code)
		}
	}
}

// sections writes each section, and each entry of one that is a list, as a document of its own.
func sections(t testing.TB, file string) (docs []Document) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Metadata map[string]any
		Spec     map[string]any
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	add := func(spec any) {
		data, err := yaml.Marshal(map[string]any{"apiVersion": inventory.APIVersion, "kind": inventory.Kind, "metadata": all.Metadata, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, Document{fmt.Sprintf("%s#%d", filepath.Base(file), len(docs)), data})
	}
	for name, section := range all.Spec {
		switch of := section.(type) {
		case []any:
			for _, item := range of {
				add(map[string]any{name: []any{item}})
			}
		case map[string]any:
			for key, value := range of {
				add(map[string]any{name: map[string]any{key: value}})
			}
		default:
			add(map[string]any{name: section})
		}
	}
	slices.SortFunc(docs, func(a, b Document) int { return strings.Compare(string(a.Data), string(b.Data)) })
	return docs
}

// goodFiles are inventories without an error.
var goodFiles = []string{"../inventorytest/full.yaml", "../inventorytest/home.yaml", "../inventorytest/pools.yaml", "../../examples/two-rack/datacenter.yaml", "../../examples/two-rack/rack-r01.yaml"}

// A webhook that refused a part for what another part says would refuse an inventory that is right.
func TestNoPartOfAValidInventoryIsRefused(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		docs := sections(t, rapid.SampledFrom(goodFiles).Draw(rt, "file"))
		part := rapid.SliceOfDistinct(rapid.SampledFrom(docs), func(d Document) string { return d.Source }).Draw(rt, "part")
		if problems := Check(part...).Errors(); len(problems) > 0 {
			rt.Errorf("%v\nin %s", problems, part)
		}
	})
}

func TestWhatIsRefusedAloneIsRefusedInEverySet(t *testing.T) {
	bad := badFiles(t)
	rapid.Check(t, func(rt *rapid.T) {
		alone := rapid.SampledFrom(bad).Draw(rt, "document").Document
		others := sections(t, rapid.SampledFrom(goodFiles).Draw(rt, "file"))
		others = rapid.SliceOfDistinct(rapid.SampledFrom(others), func(d Document) string { return d.Source }).Draw(rt, "others")
		if Check(alone).Err() == nil {
			return
		}
		if inv, problems := Parse(append(others, alone)...); inv != nil {
			rt.Errorf("refused alone:\n%v\nand not with others:\n%v", Check(alone), problems)
		}
	})
}

func TestAliasesAreJudgedWithTheWholeSetOnly(t *testing.T) {
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d: v", i)
	}
	machines := strings.Repeat("  - {name: w, addresses: [10.1.1.1], labels: *a}\n", 200)
	doc := Document{"many", []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n x-a: &a {" +
		strings.Join(keys, ", ") + "}\n racks:\n - name: r01\n   machines:\n" + strings.ReplaceAll(machines, "  -", "   -"))}
	if _, problems := Parse(doc); !slices.ContainsFunc(problems, func(p inventory.Problem) bool { return p.Code == inventory.TooManyAliases }) {
		t.Fatalf("the document has not too many aliases: %v", problems)
	}
	if problems := Check(doc); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}
