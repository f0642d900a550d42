package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
)

// The files of testdata are what an agent writes, and what one wrote before alive.json had a
// number. A difference is a new number, unless every agent that reads the old one reads it
// as before; see docs/reference/skew.md.
func TestStateIsAsItsFormatSays(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", StateFile))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	want := agenttest.SomeInputs(t)
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(d.dir, StateFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(bytes.TrimSpace(golden)), string(written)); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(filepath.Join(d.dir, StateFile), golden, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	prefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(plan.Inputs{}, "Inventory", "Version", "Trial"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), prefix); diff != "" || !document.Equal(got.Inventory, want.Inventory) {
		t.Error(diff)
	}
}

func TestASignOfLifeIsAsItsFormatSays(t *testing.T) {
	drained := time.Minute
	want := alive{
		Format: aliveFormat, Owner: thisOwner, BootID: "boot-1", Up: time.Hour, Wall: time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC),
		Drained: &drained, Lost: []netip.Addr{netip.MustParseAddr("10.1.0.1")},
	}
	numbered, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", AliveFile))
	if err != nil || !bytes.Equal(bytes.TrimSpace(golden), numbered) {
		t.Errorf("written is\n%s\nwant (%v)\n%s", numbered, err, golden)
	}
	for file, format := range map[string]int{AliveFile: 1, "alive-unnumbered.json": 0} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var got alive
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		want.Format = format
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func TestFilesOfANewerAgentAreNotReadAndItIsSaid(t *testing.T) {
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.replace(StateFile, fmt.Appendf(nil, `{"Version":%d,"Inventory":{"in":"another form"}}`, stateVersion+1)); err != nil {
		t.Fatal(err)
	}
	if err := d.replace(AliveFile, []byte(`{"Format":2,"BootID":"`+d.bootID+`"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(); !errors.As(err, new(*inventory.NewerFormatError)) || !strings.Contains(err.Error(), StateFile) {
		t.Errorf("loading says %v", err)
	}
	if p := d.PreviousRun(); p.Counts || p.Follows || p.Unread == nil {
		t.Errorf("it goes by %+v", p)
	}
}
