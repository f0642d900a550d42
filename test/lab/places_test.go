package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAPlaceOfTheHostStaysWhileAnotherLabNeedsIt(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "etc")
	file := filepath.Join(folder, "kubernetes")
	labs := []*record{{Name: "places-a", Places: []string{folder, file}}, {Name: "places-b", Places: []string{folder}}}
	for _, r := range labs {
		if err := os.MkdirAll(runDir(r.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(runDir(r.Name)) })
		if err := r.save(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	there := func(place string) bool { _, err := os.Stat(place); return err == nil }
	down := func(r *record) {
		t.Helper()
		if err := removePlaces(r.Name, r.Places); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(runDir(r.Name)); err != nil {
			t.Fatal(err)
		}
	}
	if down(labs[0]); there(file) || !there(folder) {
		t.Errorf("the file is there: %v, the folder that another lab needs: %v", there(file), there(folder))
	}
	if down(labs[1]); there(folder) {
		t.Error("nobody needs the folder, and it is left")
	}
}
