package story

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/test/lab"
)

// NothingInTheWay has plinth doctor look at a machine, on which Plinth runs, with the lab's inventory. It finds nothing but, maybe, that the clock
// of the host, which all machines of a lab have, is kept by nobody.
func NothingInTheWay(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "inventory.yaml"), []byte(lab.Inventory(l.Topology)), 0o600))
	out, err := l.Shell(t.Context(), machine, folder, "plinth doctor machine --inventory inventory.yaml --machine "+machine+" -o json || test $? = 1")
	must(t, err)
	var said struct {
		Findings []doctor.Finding `json:"findings"`
		Unread   []string         `json:"unread"`
	}
	must(t, json.Unmarshal([]byte(out), &said))
	for _, f := range said.Findings {
		if f.Kind != "ClockUnsynchronized" {
			t.Errorf("%s: %s: %s", f.Object, f.Kind, f.Message)
		}
	}
	if len(said.Unread) > 0 {
		t.Errorf("%s: not known is %q", machine, said.Unread)
	}
}
