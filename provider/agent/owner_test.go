package agent

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/agent/agenttest"
)

// leave writes what an agent leaves in a folder: a state, and a sign of life with a drain
// and a lost router.
func leave(t *testing.T, dir string, who owner) {
	t.Helper()
	d, err := openDisk(dir, who)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.save(agenttest.SomeInputs(t)); err != nil {
		t.Fatal(err)
	}
	if err := d.alive(d.sign(signs{lost: map[netip.Addr]bool{vip("10.0.0.1"): true}})); err != nil {
		t.Fatal(err)
	}
}

// without removes a key from a JSON file: an older agent did not write it.
func without(t *testing.T, file, key string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if _, there := all[key]; !there {
		t.Fatalf("%s has no %s", file, key)
	}
	delete(all, key)
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhatThisNodeLeftOnThisMachineCounts(t *testing.T) {
	machine := thisOwner.Machine
	tests := []struct {
		name  string
		older bool // an agent that wrote no owner left it
		self  owner
		says  string // empty: it counts
	}{
		{"the same", false, thisOwner, ""},
		{"another name", false, owner{"nuc2", machine}, "it is of node nuc1, and this is node nuc2"},
		{"another installation", false, owner{"nuc1", MachineIdentity{"installation-2", inventory.ReportedUUID("hardware-1")}}, "another machine-id"},
		{"a copied disk in other hardware", false, owner{"nuc1", MachineIdentity{"installation-1", inventory.ReportedUUID("hardware-2")}}, "another system UUID"},
		{"a board without a UUID", false, owner{"nuc1", MachineIdentity{"installation-1", inventory.ReportedUUID("ffffffff-ffff-ffff-ffff-ffffffffffff")}}, ""},
		{"a machine that does not tell", false, owner{"nuc1", MachineIdentity{}}, ""},
		{"an older agent's", true, thisOwner, ""},
		{"an older agent's, and another name", true, owner{"nuc2", machine}, "it is of node nuc1, and this is node nuc2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			leave(t, dir, thisOwner)
			if tt.older {
				without(t, filepath.Join(dir, stateFile), "Owner")
				without(t, filepath.Join(dir, aliveFile), "Owner")
			}
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)

			a := New(Options{Client: fake.NewClientset()})
			var err error
			if a.saver.disk, err = openDisk(dir, tt.self); err != nil {
				t.Fatal(err)
			}
			a.restore()
			counts := tt.says == ""
			if restored := a.restored != nil; restored != counts || len(a.down) == 1 != counts || a.restarting != counts || a.drain.Since.IsZero() == counts {
				t.Errorf("state taken up %v, lost routers %v, restarting %v, drain since %v", restored, a.down, a.restarting, a.drain.Since)
			}
			if warned := strings.Contains(log.String(), "level=WARN"); warned == counts || !strings.Contains(log.String(), tt.says) {
				t.Errorf("it logs %s", log.String())
			}
			if !counts && !strings.Contains(log.String(), filepath.Join(dir, stateFile)) {
				t.Errorf("it does not log the file: %s", log.String())
			}
			for _, id := range []string{"installation-", "hardware-"} {
				if strings.Contains(log.String(), id) {
					t.Errorf("it logs the ID %s: %s", id, log.String())
				}
			}
		})
	}
}

func TestAnIDThatIsNoneIsNotKnown(t *testing.T) {
	for text, want := range map[string]string{"": "", "uninitialized\n": "", "0123ABCD\n": "0123abcd"} {
		file := filepath.Join(t.TempDir(), "id")
		if got := idIn(file); got != "" {
			t.Errorf("without a file: %q", got)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := idIn(file); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}
