package source

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
)

var update = flag.Bool("update", false, "write what is stored into testdata: only with a new number of the format, or where every reader of the old one reads it as before")

// Where the golden files are: what is stored today, and what was before objects had a number.
var (
	goldenFolder     = filepath.Join("testdata", "format-1")
	unnumberedFolder = filepath.Join("testdata", "unnumbered")
)

// storedTwice is what is stored of the inventory that uses every key there is, after an edit
// of one of its racks.
func storedTwice(t *testing.T) (*inventory.Inventory, map[string]*v1.ConfigMap) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := inventory.Load(inventory.Document{Source: "full.yaml", Data: text})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	before := *inv
	before.Racks = append([]inventory.Rack(nil), inv.Racks...)
	before.Racks[0].Zone = "before"
	s := shelf{client: fake.NewClientset(), namespace: namespace}
	have, err := s.save(t.Context(), &before, accepted{})
	if err != nil {
		t.Fatal(err)
	}
	if have, err = s.save(t.Context(), inv, have); err != nil {
		t.Fatal(err)
	}
	return inv, have.slices
}

// TestWhatIsStoredIsAsItsFormatSays holds the bytes that other versions read. A difference
// is a new number of the format, unless all who read the old one read it as before; see
// docs/reference/skew.md.
func TestWhatIsStoredIsAsItsFormatSays(t *testing.T) {
	_, stored := storedTwice(t)
	if *update {
		writeGolden(t, stored)
	}
	want := readGolden(t, goldenFolder)
	if d := cmp.Diff(legible(t, want), legible(t, stored)); d != "" {
		t.Error(d)
	}
}

// TestWhatWasStoredBeforeObjectsHadANumberIsRead: an upgrade loses nothing, and writes
// nothing anew.
func TestWhatWasStoredBeforeObjectsHadANumberIsRead(t *testing.T) {
	inv, _ := storedTwice(t)
	for _, folder := range []string{goldenFolder, unnumberedFolder} {
		objects := readGolden(t, folder)
		client := fake.NewClientset()
		for _, cm := range objects {
			if err := client.Tracker().Add(cm); err != nil {
				t.Fatal(err)
			}
			if _, numbered := cm.Annotations[inventory.AnnotationFormat]; numbered != (folder == goldenFolder) {
				t.Errorf("%s in %s has the number: %v", cm.Name, folder, numbered)
			}
		}
		s := shelf{client: client, namespace: namespace}
		have, err := s.load(t.Context())
		if err != nil {
			t.Fatal(folder, err)
		}
		if !have.inventory.Equal(inv) || have.generation != 2 {
			t.Errorf("%s: generation %d says\n%s", folder, have.generation, have.inventory.FormatAccepted())
		}
		if next, err := s.save(t.Context(), inv, have); err != nil || next.generation != 2 {
			t.Errorf("%s: the same inventory is stored as generation %d, %v", folder, next.generation, err)
		}
	}
}

func writeGolden(t *testing.T, stored map[string]*v1.ConfigMap) {
	t.Helper()
	if err := os.MkdirAll(goldenFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, cm := range stored {
		cm.ManagedFields, cm.ResourceVersion = nil, ""
		text, err := json.MarshalIndent(cm, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(goldenFolder, name+".json"), append(text, '\n'), 0o644); err != nil {
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

// legible is all that readers go by, with what was compressed as text: which bytes that makes
// is the library's to say.
func legible(t *testing.T, objects map[string]*v1.ConfigMap) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for name, cm := range objects {
		said := map[string]string{}
		maps.Copy(said, cm.Labels)
		maps.Copy(said, cm.Annotations)
		maps.Copy(said, cm.Data)
		for key := range cm.BinaryData {
			said[key] = "unreadable"
		}
		if len(cm.BinaryData) > 0 {
			text, ok := textOf(cm, 1)
			if !ok {
				t.Errorf("%s does not keep generation 1", name)
			}
			said[keyPrevious] = text
		}
		out[name] = said
	}
	return out
}
