package source

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory/document"
)

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderIsReadWithItsSubfoldersAndWithoutHiddenNames(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml": "b", "a.yml": "a", "racks/r1.json": "r1", "notes.md": "no", ".b.yaml.swp": "no", ".git/x.yaml": "no", "..data/c.yaml": "no",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	proposed, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []document.Document{
		{Source: filepath.Join(dir, "a.yml"), Data: []byte("a")},
		{Source: filepath.Join(dir, "b.yaml"), Data: []byte("b")},
		{Source: filepath.Join(dir, "racks/r1.json"), Data: []byte("r1")},
	}
	if diff := cmp.Diff(want, proposed.Documents); diff != "" {
		t.Error(diff)
	}
	texts, err := Texts(dir, func(file string) bool { return filepath.Ext(file) == ".md" })
	if err != nil || len(texts) != len(want)+1 || texts[2].Source != filepath.Join(dir, "notes.md") {
		t.Errorf("%v, %v", texts, err)
	}
}

func TestAFileIsReadWhateverItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory")
	write(t, file, "x")
	proposed, err := Read(file)
	if err != nil || len(proposed.Documents) != 1 || proposed.Documents[0].Source != file {
		t.Errorf("%v, %v", proposed, err)
	}
}

// followed runs Files and returns what it hands out.
func followed(t *testing.T, path string) <-chan Edit {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	edits, done := make(chan Edit, 100), make(chan struct{})
	go func() {
		defer close(done)
		if err := (Files{Path: path, Every: 50 * time.Millisecond}).Run(ctx, func(e Edit) { edits <- e }); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return edits
}

func next(t *testing.T, edits <-chan Edit) string {
	t.Helper()
	out := ""
	for _, d := range nextEdit(t, edits).Documents {
		out += string(d.Data)
	}
	return out
}

func nextEdit(t *testing.T, edits <-chan Edit) Edit {
	t.Helper()
	select {
	case e := <-edits:
		return e
	case <-time.After(5 * time.Second):
		t.Fatal("no edit was handed out")
		return Edit{}
	}
}

func TestEveryWayOfChangingAFileIsSeen(t *testing.T) {
	ways := map[string]func(t *testing.T, file string){
		"written in place": func(t *testing.T, file string) { write(t, file, "two") },
		"renamed over, as editors do": func(t *testing.T, file string) {
			write(t, file+"~", "two")
			if err := os.Rename(file+"~", file); err != nil {
				t.Fatal(err)
			}
		},
		"removed and written again": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			write(t, file, "two")
		},
	}
	for name, change := range ways {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "dc1.yaml")
			write(t, file, "one")
			edits := followed(t, file)
			if got := next(t, edits); got != "one" {
				t.Fatalf("got %q", got)
			}
			change(t, file)
			if got := next(t, edits); got != "two" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestASwapOfKubernetesSymlinksIsOneEdit(t *testing.T) {
	dir := t.TempDir()
	volume := func(name, a, b string) {
		write(t, filepath.Join(dir, name, "a.yaml"), a)
		write(t, filepath.Join(dir, name, "b.yaml"), b)
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	volume("..1", "a1 ", "b1")
	link("..1", "..data")
	link("..data/a.yaml", "a.yaml")
	link("..data/b.yaml", "b.yaml")
	edits := followed(t, dir)
	if got := next(t, edits); got != "a1 b1" {
		t.Fatalf("got %q", got)
	}
	volume("..2", "a2 ", "b2")
	link("..2", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if got := next(t, edits); got != "a2 b2" {
		t.Errorf("got %q", got)
	}
}

func TestWhatIsBeingWrittenIsNotHandedOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dc1.yaml")
	write(t, file, "old")
	var got []string
	w := watched{path: file}
	look := func() {
		w.look(func(e Edit) { got = append(got, string(e.Documents[0].Data)) })
	}
	look()
	look()
	for _, part := range []string{"n", "ne", "new"} {
		write(t, file, part)
		look()
	}
	look()
	look()
	if diff := cmp.Diff([]string{"old", "new"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFolderThatIsGoneForAMomentIsNoEdit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "inventory")
	write(t, filepath.Join(dir, "a.yaml"), "a")
	count := 0
	w := watched{path: dir}
	look := func() { w.look(func(Edit) { count++ }) }
	look()
	look()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if count != 1 {
		t.Errorf("%d edits", count)
	}
}
