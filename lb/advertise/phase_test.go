package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var tenurePhases = []tenurePhase{released, following, waiting, owning, yielding}

// TestTheTableOfTenuresIsThePicture shows the table: of a phase what an occurrence leads to.
func TestTheTableOfTenuresIsThePicture(t *testing.T) {
	var got []string
	for _, from := range tenurePhases {
		got = append(got, fmt.Sprintf("%s: released %s, other owns %s, owner waits %s, owner answers %s",
			from, transitions[from][vipReleased], transitions[from][otherOwns], transitions[from][ownerWaits], transitions[from][ownerAnswers]))
	}
	want := strings.TrimSpace(`
released: released released, other owns following, owner waits waiting, owner answers owning
following: released released, other owns following, owner waits waiting, owner answers owning
waiting: released released, other owns following, owner waits waiting, owner answers owning
owning: released released, other owns yielding, owner waits waiting, owner answers owning
yielding: released released, other owns yielding, owner waits waiting, owner answers owning
`)
	if now := strings.Join(got, "\n"); now != want {
		t.Errorf("the transitions are\n%s\nwant\n%s", now, want)
	}
}

func TestEachOccurrenceLeadsFromEachPhaseOfATenure(t *testing.T) {
	if len(transitions) != len(tenurePhases) {
		t.Errorf("the table has %d phases", len(transitions))
	}
	for _, from := range tenurePhases {
		for o := vipReleased; o <= ownerAnswers; o++ {
			to := from
			to.move(o)
			if _, known := transitions[to]; !known {
				t.Errorf("occurrence %d leads from %s to %q", o, from, to)
			}
		}
		if len(transitions[from]) != int(ownerAnswers)+1 {
			t.Errorf("%s is left by %v", from, transitions[from])
		}
	}
}

// reported is the phase that a step reports of its only VIP.
func (o Step) reported(self string) (phases []tenurePhase) {
	claims, owner := len(o.Claims) > 0, o.Owners[0].Owner
	switch {
	case claims && owner == self:
		return []tenurePhase{owning}
	case claims:
		return []tenurePhase{yielding}
	case owner != "":
		return []tenurePhase{following}
	}
	return []tenurePhase{released, waiting}
}

// Law: whatever a machine sees, hears and finds, what it reports of a VIP is what the phase of its tenure says, and only a
// machine that answers yields a VIP.
func TestAMachineReportsThePhaseOfATenureWhateverHappens(t *testing.T) {
	names, vip := []string{"a", "b", "c"}, LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b", "c"}, Served: true}
	seen := map[tenurePhase]bool{}
	rapid.Check(t, func(t *rapid.T) {
		s, now, seg, vip := NewSuccession(nil), time.Hour, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Up}}}, vip
		phase := func() tenurePhase {
			if tenure := s.vips[vip.VIP]; tenure != nil {
				return tenure.phase
			}
			return released
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			was := phase()
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				s.Heard(now, vip.VIP, rapid.SampledFrom(names[1:]).Draw(t, "heard"))
			case 1:
				found := Found{Stranger: rapid.IntRange(0, 9).Draw(t, "foreign") == 0}
				if rapid.IntRange(0, 2).Draw(t, "found") == 0 {
					found.Machine = rapid.SampledFrom(names[1:]).Draw(t, "machine")
				}
				s.Probed(now, vip.VIP, found)
			case 2:
				i := rapid.IntRange(0, 2).Draw(t, "machine")
				if seg.Machines[i].Standing = Leaving; i > 0 {
					seg.Machines[i].Standing = rapid.SampledFrom([]Standing{Unheard, Down, Up, Leaving, Holding}).Draw(t, "standing")
				}
				vip.Served = rapid.IntRange(0, 5).Draw(t, "served") > 0
			case 3:
				vip.Homes = rapid.Permutation(names).Draw(t, "homes")
			case 4:
				seg.Machines, vip.Served = []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Up}}, true
			case 5:
				now += rapid.SampledFrom([]time.Duration{100 * time.Millisecond, careful, trust, yields, verifies, resigns, settles}).Draw(t, "passes")
			}
			if is := phase(); is != was && is != released {
				t.Fatalf("%s leads to %s without a step", was, is)
			}
			was = phase()
			out := s.Step(now, seg, []LinkVIP{vip})
			is := phase()
			if !slices.Contains(out.reported("a"), is) {
				t.Fatalf("it is %s, and reports %+v", is, out)
			}
			if is == yielding && !was.answers() {
				t.Fatalf("%s leads to %s", was, is)
			}
			seen[is] = true
		}
	})
	if len(seen) != len(tenurePhases) {
		t.Errorf("only %v were seen", seen)
	}
}
