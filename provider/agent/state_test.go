package agent

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
)

// thisOwner is who the state of someInputs is of.
var thisOwner = owner{"nuc1", MachineIdentity{MachineID: "installation-1", SystemUUID: inventory.ReportedUUID("hardware-1")}}

func TestStateOnDiskIsWhatWasSaved(t *testing.T) {
	d, err := openDisk(filepath.Join(t.TempDir(), "deep", "state"), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	want := agenttest.SomeInputs(t)
	if err := d.save(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.load()
	if err != nil {
		t.Fatal(err)
	}
	if !document.Equal(got.Inventory, want.Inventory) {
		t.Error("another inventory")
	}
	ignore := cmpopts.IgnoreFields(plan.Inputs{}, "Inventory", "Version", "Trial")
	prefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, got, ignore, addresses, prefix); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, _ := os.Stat(filepath.Join(d.dir, stateFile)); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: there are passwords in it", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatAKilledProcessWasWritingIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".state.json-123", ".alive.json-4", stateFile, aliveFile, ".mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openDisk(dir, thisOwner); err != nil {
		t.Fatal(err)
	}
	var got []string
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		got = append(got, e.Name())
	}
	if want := []string{".mine", aliveFile, stateFile}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

func TestADiskThatHangsHoldsUpNothing(t *testing.T) {
	d, err := openDisk(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Client: fake.NewClientset()})
	a.saver.disk, a.planned = d, true // and nobody writes
	in := agenttest.SomeInputs(t)
	for i := range 3 {
		in.Version.Offers = uint64(i + 1)
		a.saver.save(in)
		a.enter(plan.Phase{Draining: i%2 == 0})
		a.signOfLife()
	}
	if got := <-a.saver.inputs; got.Version != in.Version {
		t.Errorf("the inputs that wait to be written are %+v, want the newest, %+v", got.Version, in.Version)
	}
	if s := <-a.saver.signs; s.BootID != d.bootID {
		t.Errorf("the sign of life is %+v", s)
	}
}

func TestStateThatIsBrokenOrMissingCountsForNothing(t *testing.T) {
	d, err := openDisk(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.load(); err == nil {
		t.Error("loaded nothing")
	}
	for _, content := range []string{"", "{", `{"Version":7}`, `{"Version":1,"Inventory":"kind: Nonsense"}`} {
		if err := os.WriteFile(filepath.Join(d.dir, stateFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.load(); err == nil {
			t.Errorf("loaded %q", content)
		}
	}
}

func TestPredecessorIsOfThisBootAndAMomentAgo(t *testing.T) {
	d, err := openDisk(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	now := d.now()
	ago := func(d time.Duration) *time.Duration { return &d }
	tests := []struct {
		name string
		last sign
		want past
	}{
		{"a moment ago", now, past{follows: true, counts: true}},
		{"an hour ago, in this boot", sign{BootID: now.BootID, Up: now.Up - time.Hour, Drained: ago(time.Second)}, past{counts: true}},
		{"before a reboot", sign{BootID: "other", Up: now.Up, Wall: now.Wall.Add(-time.Hour), Drained: ago(time.Second)}, past{counts: true, booted: true}},
		{"long before a reboot", sign{BootID: "other", Wall: now.Wall.Add(-48 * time.Hour)}, past{booted: true}},
		{"before a reboot, after which the clock begins anew", sign{BootID: "other", Wall: now.Wall.Add(24 * time.Hour)}, past{booted: true}},
		{"later in this boot than it is now, as in a machine that was set back", sign{BootID: now.BootID, Up: now.Up + time.Hour, Drained: ago(time.Second)}, past{counts: true}},
		{"a moment ago, on a clock that was set since", sign{BootID: now.BootID, Up: now.Up, Wall: now.Wall.Add(9000 * time.Hour)}, past{follows: true, counts: true}},
		{"a minute ago, in a drain", sign{BootID: now.BootID, Up: now.Up - time.Minute, Drained: ago(time.Second)}, past{follows: true, counts: true, drained: ago(61 * time.Second)}},
		{"a minute ago, in no drain", sign{BootID: now.BootID, Up: now.Up - time.Minute, Drained: ago(-1)}, past{follows: true, counts: true, drained: ago(-1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := d.write(aliveFile, tt.last); err != nil {
				t.Fatal(err)
			}
			got := d.predecessor()
			if got.drained != nil && *got.drained >= 0 {
				*got.drained = got.drained.Truncate(time.Second)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(past{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The state of an agent is read once, when the next one begins: until then nobody would notice that it is gone.
func TestASavedStateThatIsGoneIsWrittenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d, err := openDisk(dir, owner{Node: "nuc1"})
	if err != nil {
		t.Fatal(err)
	}
	s, in, file := newSaver(), agenttest.SomeInputs(t), filepath.Join(dir, stateFile)
	s.disk, in.Version = d, plan.Version{Self: 1}
	writes := func() bool {
		t.Helper()
		s.writeSign(d.now())
		s.save(in)
		select {
		case one := <-s.inputs:
			s.writeInputs(one)
			return true
		default:
			return false
		}
	}
	if !writes() || writes() {
		t.Fatal("it is not written once")
	}
	for _, c := range []struct {
		name string
		harm func() error
	}{
		{"the file was deleted", func() error { return os.Remove(file) }},
		{"the folder was deleted", func() error { return os.RemoveAll(dir) }},
		{"the file was emptied", func() error { return os.Truncate(file, 0) }},
		{"another file is in its place", func() error {
			text, err := os.ReadFile(file)
			return errors.Join(err, os.Remove(file), os.WriteFile(file, text[:len(text)-1], 0o600))
		}},
	} {
		if err := c.harm(); err != nil {
			t.Fatal(err)
		}
		if !writes() {
			t.Errorf("%s: it is not written again", c.name)
		}
		if _, err := d.load(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if writes() {
			t.Errorf("%s: it is written twice", c.name)
		}
	}
}
