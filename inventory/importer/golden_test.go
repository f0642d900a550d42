package importer

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"plinth.dev/plinth/golden"
	"plinth.dev/plinth/inventory/document"
)

// story is an archive of testdata: its comment has the sources and flags, its files what is read, and those named want what comes out.
type story struct {
	path    string
	comment string
	options Options
	docs    []document.Document
}

// storiesIn are those of the files that a pattern matches.
func storiesIn(t *testing.T, pattern string) (all []story) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := story{path: path, comment: string(archive.Comment), options: optionsOf(t, string(archive.Comment))}
		for _, f := range archive.Files {
			if !strings.HasPrefix(f.Name, "want.") {
				s.docs = append(s.docs, document.Document{Source: f.Name, Data: f.Data})
			}
		}
		all = append(all, s)
	}
	return all
}

// hold holds the story against what an import gives.
func (s story) hold(t *testing.T, text []byte, notes Notes) {
	t.Helper()
	archive := &txtar.Archive{Comment: []byte(s.comment)}
	for _, d := range s.docs {
		archive.Files = append(archive.Files, txtar.File{Name: d.Source, Data: d.Data})
	}
	if text != nil {
		archive.Files = append(archive.Files, txtar.File{Name: "want.yaml", Data: text})
	}
	archive.Files = append(archive.Files, txtar.File{Name: "want.notes", Data: []byte(told(nil, notes))})
	golden.Hold(t, s.path, txtar.Format(archive))
}

func TestGoldens(t *testing.T) {
	for _, s := range storiesIn(t, "testdata/*.txtar") {
		t.Run(filepath.Base(s.path), func(t *testing.T) {
			text, notes := Import(s.options, s.docs...)
			s.hold(t, text, notes)
			checkLaw(t, s.options, s.docs...)
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
