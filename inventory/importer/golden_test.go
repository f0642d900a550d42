package importer

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"plinth.dev/plinth/inventory"
)

var update = flag.Bool("update", false, "write what the goldens are to be")

// TestGoldens reads stories: the comment of an archive has the sources and flags, its files what is read, and those named want what comes out.
func TestGoldens(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var docs []inventory.Document
			want := map[string]string{}
			var kept []txtar.File
			for _, f := range archive.Files {
				if strings.HasPrefix(f.Name, "want.") {
					want[f.Name] = string(f.Data)
					continue
				}
				docs, kept = append(docs, inventory.Document{Source: f.Name, Data: f.Data}), append(kept, f)
			}
			options := optionsOf(t, string(archive.Comment))
			text, notes := Import(options, docs...)
			var told strings.Builder
			for _, n := range notes {
				told.WriteString(n.String() + "\n")
			}
			got := map[string]string{"want.yaml": string(text), "want.notes": told.String()}
			if *update {
				archive.Files = append(kept, txtar.File{Name: "want.yaml", Data: text}, txtar.File{Name: "want.notes", Data: []byte(told.String())})
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
			checkLaw(t, options, docs...)
		})
	}
}

// optionsOf are what the first line of an archive says: plinth import SOURCES [flags].
func optionsOf(t *testing.T, comment string) (o Options) {
	t.Helper()
	line, _, _ := strings.Cut(comment, "\n")
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "plinth" || words[1] != "import" {
		t.Fatalf("%q does not begin with plinth import SOURCES", line)
	}
	o.Sources = strings.Split(words[2], ",")
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "--name":
			o.Name = value
		case "--rack-by":
			o.RackBy = value
		case "--role":
			o.Roles = strings.Split(value, ",")
		case "--router-role":
			o.RouterRoles = strings.Split(value, ",")
		case "--labels":
			o.Labels = true
		case "--pod-network":
			o.PodNetwork = true
		default:
			t.Fatalf("%s is no flag", key)
		}
	}
	return o
}
