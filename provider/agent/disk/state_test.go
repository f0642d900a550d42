package disk

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
)

// thisOwner is who the state of someInputs is of.
var thisOwner = Owner{"nuc1", MachineIdentity{MachineID: "installation-1", SystemUUID: inventory.ReportedUUID("hardware-1")}}

func TestStateOnDiskIsWhatWasSaved(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "deep", "state"), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	want := agenttest.SomeInputs(t)
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	if !document.Equal(got.Inventory, want.Inventory) {
		t.Error("another inventory")
	}
	ignore := cmpopts.IgnoreFields(plan.Inputs{}, "Inventory", "Version", "Trial")
	prefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, got, ignore, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), prefix); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, _ := os.Stat(filepath.Join(d.dir, StateFile)); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: there are passwords in it", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatAKilledProcessWasWritingIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".state.json-123", ".alive.json-4", StateFile, AliveFile, ".mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, thisOwner); err != nil {
		t.Fatal(err)
	}
	var got []string
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		got = append(got, e.Name())
	}
	if want := []string{".mine", AliveFile, StateFile}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

func TestADiskThatHangsHoldsUpNothing(t *testing.T) {
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSaver(slog.Default())
	s.Dir = d // and nobody writes
	in := agenttest.SomeInputs(t)
	for i := range 3 {
		in.Version.Offers = uint64(i + 1)
		s.Save(in)
		s.WriteAlive(Handover{Drained: time.Duration(i)})
	}
	if got := <-s.inputs; got.Version != in.Version {
		t.Errorf("the inputs that wait to be written are %+v, want the latest, %+v", got.Version, in.Version)
	}
	if s := <-s.alive; s.BootID != d.bootID || *s.Drained != 2 {
		t.Errorf("the sign of life is %+v", s)
	}
}

func TestStateThatIsBrokenOrMissingCountsForNothing(t *testing.T) {
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(); err == nil {
		t.Error("loaded nothing")
	}
	for _, content := range []string{"", "{", `{"Version":7}`, `{"Version":1,"Inventory":"kind: Nonsense"}`} {
		if err := os.WriteFile(filepath.Join(d.dir, StateFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Load(); err == nil {
			t.Errorf("loaded %q", content)
		}
	}
}

func TestPredecessorIsOfThisBootAndAMomentAgo(t *testing.T) {
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	now := d.now()
	ago := func(d time.Duration) *time.Duration { return &d }
	tests := []struct {
		name string
		last alive
		want PreviousRun
	}{
		{"a moment ago", now, PreviousRun{Follows: true, Counts: true}},
		{"an hour ago, in this boot", alive{BootID: now.BootID, Up: now.Up - time.Hour, Drained: ago(time.Second)}, PreviousRun{Counts: true}},
		{"before a reboot", alive{BootID: "other", Up: now.Up, Wall: now.Wall.Add(-time.Hour), Drained: ago(time.Second)}, PreviousRun{Counts: true, Booted: true}},
		{"long before a reboot", alive{BootID: "other", Wall: now.Wall.Add(-48 * time.Hour)}, PreviousRun{Booted: true}},
		{"before a reboot, after which the clock begins anew", alive{BootID: "other", Wall: now.Wall.Add(24 * time.Hour)}, PreviousRun{Booted: true}},
		{"later in this boot than it is now, as in a machine that was set back", alive{BootID: now.BootID, Up: now.Up + time.Hour, Drained: ago(time.Second)}, PreviousRun{Counts: true}},
		{"a moment ago, on a clock that was set since", alive{BootID: now.BootID, Up: now.Up, Wall: now.Wall.Add(9000 * time.Hour)}, PreviousRun{Follows: true, Counts: true}},
		{"a minute ago, in a drain", alive{BootID: now.BootID, Up: now.Up - time.Minute, Drained: ago(time.Second)}, PreviousRun{Follows: true, Counts: true, Drained: ago(61 * time.Second)}},
		{"a minute ago, in no drain", alive{BootID: now.BootID, Up: now.Up - time.Minute, Drained: ago(-1)}, PreviousRun{Follows: true, Counts: true, Drained: ago(-1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := d.write(AliveFile, tt.last); err != nil {
				t.Fatal(err)
			}
			got := d.PreviousRun()
			if got.Drained != nil && *got.Drained >= 0 {
				*got.Drained = got.Drained.Truncate(time.Second)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(PreviousRun{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The state of an agent is read once, when the next one begins: until then nobody would notice that it is gone.
func TestASavedStateThatIsGoneIsWrittenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d, err := Open(dir, Owner{Node: "nuc1"})
	if err != nil {
		t.Fatal(err)
	}
	s, in, file := NewSaver(slog.Default()), agenttest.SomeInputs(t), filepath.Join(dir, StateFile)
	s.Dir, in.Version = d, plan.Version{Self: 1}
	writes := func() bool {
		t.Helper()
		s.writeAlive(d.now())
		s.Save(in)
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
		if _, err := d.Load(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if writes() {
			t.Errorf("%s: it is written twice", c.name)
		}
	}
}

// TestStateThatOlderAgentsWouldMisreadIsOfAFormatThatTheyDoNotRead, and this one does.
func TestStateThatOlderAgentsWouldMisreadIsOfAFormatThatTheyDoNotRead(t *testing.T) {
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	in := agenttest.SomeInputs(t)
	in.Inventory = agenttest.Selecting(t, "tier")
	in.Offers = in.Offers.Edit(nil, []advertise.Offer{{Service: lb.ServiceKey{Namespace: "d", Name: "web"}, VIP: netip.MustParseAddr("203.0.113.7"), Labels: "tier=gold"}})
	if err := d.Save(in); err != nil {
		t.Fatal(err)
	}
	var head struct{ Version int }
	if err := d.read(StateFile, &head); err != nil || head.Version != 2 {
		t.Errorf("it is of version %d, %v", head.Version, err)
	}
	got, err := d.Load()
	if err != nil || !document.Equal(got.Inventory, in.Inventory) || !got.Offers.Equal(in.Offers) {
		t.Errorf("%v: %v, want %v", err, got.Offers, in.Offers)
	}
}

func TestRoutesStayWhereTheyAreWhenTheClockJumps(t *testing.T) {
	d := Dir{dir: t.TempDir(), bootID: "this boot"}
	for _, jump := range []time.Duration{-20 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		last := d.now()
		last.Wall = last.Wall.Add(jump)
		if err := d.write(AliveFile, last); err != nil {
			t.Fatal(err)
		}
		if p := d.PreviousRun(); !p.Follows || !p.Counts || p.Booted {
			t.Errorf("the clock was set by %v: %+v", -jump, p)
		}
	}
}
