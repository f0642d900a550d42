package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplacedAndNothingElseIsLeft(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "state.json")
	for _, content := range []string{"old", "new"} {
		if err := Replace(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("there are %v, %v", all, err)
	}
}

func TestAFileThatCannotBeReplacedStaysAndNothingElseIsLeft(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "state.json")
	if err := os.Mkdir(file, 0o700); err != nil { // no file can take a folder's place
		t.Fatal(err)
	}
	if err := Replace(file, []byte("new")); err == nil {
		t.Error("it says that a folder was replaced")
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("there are %v, %v", all, err)
	}
}

func TestPartsOfOtherFilesStay(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{".state.json-1", ".state.json-22", ".other.json-3", "state.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	RemoveParts(filepath.Join(folder, "state.json"))
	all, err := os.ReadDir(folder)
	if err != nil || len(all) != 2 || all[0].Name() != ".other.json-3" || all[1].Name() != "state.json" {
		t.Errorf("there are %v, %v", all, err)
	}
}
