package source

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/golden"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Where the golden files are: what is stored today, where a pool says what older versions do
// not understand, and where one is on a link; what version 0.1 stored, which wrote slices
// in place, and what was stored before objects had a number.
var (
	goldenFolder     = filepath.Join("testdata", "format-1")
	format2Folder    = filepath.Join("testdata", "format-2")
	format3Folder    = filepath.Join("testdata", "format-3")
	inPlaceFolder    = filepath.Join("testdata", "in-place")
	unnumberedFolder = filepath.Join("testdata", "unnumbered")
)

// storedTwice is what is stored of an inventory, after an edit of one of its racks. full.yaml uses
// every key of format 1.
func storedTwice(t *testing.T, file string) (*inventory.Inventory, map[string]*v1.ConfigMap) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "inventorytest", file))
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := document.Load(document.Document{Source: file, Data: text})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	before := *inv
	before.Racks = append([]inventory.Rack(nil), inv.Racks...)
	before.Racks[0].Zone = "before"
	s := acceptedStore{client: fake.NewClientset(), namespace: namespace}
	have, err := s.save(t.Context(), &before, accepted{})
	if err != nil {
		t.Fatal(err)
	}
	if have, err = s.save(t.Context(), inv, have); err != nil {
		t.Fatal(err)
	}
	if err := s.tidy(t.Context(), have); err != nil {
		t.Fatal(err)
	}
	return inv, have.parts
}

// TestWhatIsStoredIsAsItsFormatSays holds the bytes that other versions read. A difference
// is a new number of the format, unless all who read the old one read it as before; see
// docs/reference/skew.md.
func TestWhatIsStoredIsAsItsFormatSays(t *testing.T) {
	for file, folder := range map[string]string{"full.yaml": goldenFolder, "pools.yaml": format2Folder, "links.yaml": format3Folder} {
		_, stored := storedTwice(t, file)
		if golden.Updating() {
			writeGolden(t, folder, stored)
		}
		want := readGolden(t, folder)
		if d := cmp.Diff(legible(want), legible(stored)); d != "" {
			t.Error(file, d)
		}
	}
}

// TestTheFormatIsThatOfTheInventoryInIt: the next edit that older versions understand is of theirs.
func TestTheFormatIsThatOfTheInventoryInIt(t *testing.T) {
	s, have := acceptedStore{client: fake.NewClientset(), namespace: namespace}, accepted{}
	for _, file := range []string{"full.yaml", "pools.yaml", "links.yaml", "full.yaml"} {
		inv, _ := storedTwice(t, file)
		var err error
		if have, err = s.save(t.Context(), inv, have); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"full.yaml": "1", "pools.yaml": "2", "links.yaml": "3"}[file]
		if got := have.parts[AcceptedName].Annotations[inventory.AnnotationFormat]; got != want {
			t.Errorf("%s is stored as format %s", file, got)
		}
		if again, err := s.load(t.Context()); err != nil || !document.Equal(again.inventory, inv) {
			t.Errorf("%s: %v, read back\n%s", file, err, document.FormatAccepted(again.inventory))
		}
	}
}

// TestWhatAnOlderVersionStoredIsRead: an upgrade loses nothing, and no generation comes of it.
func TestWhatAnOlderVersionStoredIsRead(t *testing.T) {
	inv, _ := storedTwice(t, "full.yaml")
	for _, folder := range []string{goldenFolder, inPlaceFolder, unnumberedFolder} {
		client := stored(t, folder)
		for name, cm := range readGolden(t, folder) {
			if _, numbered := cm.Annotations[inventory.AnnotationFormat]; numbered != (folder != unnumberedFolder) {
				t.Errorf("%s in %s has the number: %v", name, folder, numbered)
			}
		}
		s := acceptedStore{client: client, namespace: namespace}
		have, err := s.load(t.Context())
		if err != nil {
			t.Fatal(folder, err)
		}
		if !document.Equal(have.inventory, inv) || have.generation != 2 {
			t.Errorf("%s: generation %d says\n%s", folder, have.generation, document.FormatAccepted(have.inventory))
		}
		agentsHave(t, client, inv)
		client.ClearActions()
		next, err := s.save(t.Context(), inv, have)
		if err != nil || next.generation != 2 {
			t.Errorf("%s: the same inventory is stored as generation %d, %v", folder, next.generation, err)
		}
		want := []string{"create " + sliceName("r01", 2), "create " + sliceName("r02", 1)}
		if folder == goldenFolder {
			want = nil
		}
		if err := s.tidy(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, written(client)); d != "" {
			t.Errorf("%s: written is %s", folder, d)
		}
	}
}

// TestHalfOfAnEditOfVersion01IsNotTakenUp has its leader have died between the slices of an
// edit that moves machine a from r0 to r1: in r0's slice it is no more, in r1's it is not yet.
// The leader that takes over may die after any write, too.
func TestHalfOfAnEditOfVersion01IsNotTakenUp(t *testing.T) {
	blocks := map[string]string{"a": "r0 [10.244.0.0/24]", "b": "r0 [10.244.1.0/24]", "c": "r1 [10.244.16.0/24]"}
	for writes, all := 0, false; !all; writes++ {
		client := stored(t, filepath.Join("testdata", "in-place-torn"))
		chain := client.ReactionChain
		dying(client, writes)
		first := reconcilerOf(client)
		e := proposed(layout(map[string]string{"r0": "b", "r1": "c a d"}))
		first.Enforce = func(inv *inventory.Inventory) {
			if got := place(inv); got["b"] != blocks["b"] || got["c"] != blocks["c"] || got["a"] != blocks["a"] && got["a"] != "r1 [10.244.0.0/24]" {
				t.Errorf("%d writes: in force is %v", writes, got)
			}
		}
		first.take(e)
		all = first.step(t.Context()) == nil
		client.ReactionChain = chain
		left, err := Accepted(t.Context(), client, namespace)
		if err != nil {
			t.Fatalf("%d writes: %v", writes, err)
		}
		if got := place(left); !maps.Equal(got, blocks) && (got["a"] != "r1 [10.244.0.0/24]" || got["d"] != "r1 [10.244.17.0/24]") {
			t.Errorf("%d writes: stored is %v", writes, got)
		}
		agentsHave(t, client, left)
		checkOlder(t, client, left, nil)
	}
}

// stored is an API server with the ConfigMaps of a folder.
func stored(t *testing.T, folder string) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset()
	for _, cm := range readGolden(t, folder) {
		if err := client.Tracker().Add(cm); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

func writeGolden(t *testing.T, folder string, stored map[string]*v1.ConfigMap) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, cm := range stored {
		cm.ManagedFields, cm.ResourceVersion = nil, ""
		text, err := json.MarshalIndent(cm, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readGolden(t *testing.T, folder string) map[string]*v1.ConfigMap {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%s has %d files, %v", folder, len(files), err)
	}
	out := map[string]*v1.ConfigMap{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cm := &v1.ConfigMap{}
		if err := json.Unmarshal(text, cm); err != nil {
			t.Fatal(file, err)
		}
		out[cm.Name] = cm
	}
	return out
}

// legible is all that readers go by.
func legible(objects map[string]*v1.ConfigMap) map[string]map[string]string {
	out := map[string]map[string]string{}
	for name, cm := range objects {
		said := map[string]string{"immutable": fmt.Sprint(cm.Immutable != nil && *cm.Immutable), "binary": fmt.Sprint(len(cm.BinaryData))}
		maps.Copy(said, cm.Labels)
		maps.Copy(said, cm.Annotations)
		maps.Copy(said, cm.Data)
		out[name] = said
	}
	return out
}
