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
	"plinth.dev/plinth/provider/agent/disk"
)

// thisOwner is who the state of [agenttest.SomeInputs] is of.
var thisOwner = disk.Owner{Node: "nuc1", Machine: disk.MachineIdentity{MachineID: "installation-1", SystemUUID: inventory.ReportedUUID("hardware-1")}}

// leave writes what an agent leaves in a folder: a state, and a sign of life with a drain
// and a lost router.
func leave(t *testing.T, dir string, who disk.Owner) {
	t.Helper()
	d, err := disk.Open(dir, who)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(agenttest.SomeInputs(t)); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteAlive(disk.Handover{Lost: map[netip.Addr]bool{vip("10.0.0.1"): true}}); err != nil {
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
		self  disk.Owner
		says  string // empty: it counts
	}{
		{"the same", false, thisOwner, ""},
		{"another name", false, disk.Owner{Node: "nuc2", Machine: machine}, "it is of node nuc1, and this is node nuc2"},
		{"another installation", false, disk.Owner{Node: "nuc1", Machine: disk.MachineIdentity{MachineID: "installation-2", SystemUUID: inventory.ReportedUUID("hardware-1")}}, "another machine-id"},
		{"a copied disk in other hardware", false, disk.Owner{Node: "nuc1", Machine: disk.MachineIdentity{MachineID: "installation-1", SystemUUID: inventory.ReportedUUID("hardware-2")}}, "another system UUID"},
		{"a board without a UUID", false, disk.Owner{Node: "nuc1", Machine: disk.MachineIdentity{MachineID: "installation-1", SystemUUID: inventory.ReportedUUID("ffffffff-ffff-ffff-ffff-ffffffffffff")}}, ""},
		{"a machine that does not tell", false, disk.Owner{Node: "nuc1", Machine: disk.MachineIdentity{}}, ""},
		{"an older agent's", true, thisOwner, ""},
		{"an older agent's, and another name", true, disk.Owner{Node: "nuc2", Machine: machine}, "it is of node nuc1, and this is node nuc2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			leave(t, dir, thisOwner)
			if tt.older {
				without(t, filepath.Join(dir, disk.StateFile), "Owner")
				without(t, filepath.Join(dir, disk.AliveFile), "Owner")
			}
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)

			a := New(Options{Client: fake.NewClientset()})
			var err error
			if a.disk.saver.Dir, err = disk.Open(dir, tt.self); err != nil {
				t.Fatal(err)
			}
			a.restore()
			counts := tt.says == ""
			if restored := a.known.restored != nil; restored != counts || len(a.routers.down) == 1 != counts || a.planned.restarting != counts || a.drain.Since.IsZero() == counts {
				t.Errorf("state taken up %v, lost routers %v, restarting %v, drain since %v", restored, a.routers.down, a.planned.restarting, a.drain.Since)
			}
			if warned := strings.Contains(log.String(), "level=WARN"); warned == counts || !strings.Contains(log.String(), tt.says) {
				t.Errorf("it logs %s", log.String())
			}
			if !counts && !strings.Contains(log.String(), filepath.Join(dir, disk.StateFile)) {
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
