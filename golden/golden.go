package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files that the test holds what it makes against")

// Updating reports whether the test is to write its files, for those that are only a part of a file, or many files.
func Updating() bool { return *update }

// Hold fails the test where a file is not what was made. With -update it writes the file first, and its folder where there is
// none.
func Hold(t testing.TB, path string, made []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v: if there is to be such a file, the flag -update writes it", err)
		return
	}
	if !bytes.Equal(want, made) {
		t.Errorf("%s differs; if what was made is right, make generate or the flag -update writes it (-file +made):\n%s", path, cmp.Diff(string(want), string(made)))
	}
}
