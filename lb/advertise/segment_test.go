package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/lb"
)

// Law: of groups each of which sees only itself one at most has the majority, for two adjacent
// inventories as well.
func TestOneGroupHasTheMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "machines")
		names := make([]string, n)
		groups, old, edited := map[string]int{}, map[string]bool{}, map[string]bool{}
		for i := range n {
			names[i] = fmt.Sprintf("m%d", i)
			groups[names[i]] = rapid.IntRange(0, 3).Draw(t, "group")
			old[names[i]] = rapid.Bool().Draw(t, "old")
			edited[names[i]] = rapid.Bool().Draw(t, "edited")
		}
		var has []int
		for _, self := range names {
			active, before := old, []string(nil)
			if rapid.Bool().Draw(t, "has heard of the edit") {
				active = edited
				for _, name := range names {
					if old[name] {
						before = append(before, name)
					}
				}
			}
			seg := Segment{Self: self, Before: before}
			for _, name := range names {
				standing := Down
				if groups[name] == groups[self] {
					standing = Up
				}
				seg.Machines = append(seg.Machines, Neighbor{name, active[name], standing})
			}
			if seg.Quorum() == Majority && active[self] && !slices.Contains(has, groups[self]) {
				has = append(has, groups[self])
			}
		}
		if len(has) > 1 && len(beforeOf(names, old)) > 0 {
			t.Fatalf("groups %v have the majority: %v, active %v, then %v", has, groups, old, edited)
		}
	})
}

func beforeOf(names []string, active map[string]bool) (out []string) {
	for _, name := range names {
		if active[name] {
			out = append(out, name)
		}
	}
	return out
}

func TestOwnerDoesNotDependOnTheOrderOfHomesThatAreGone(t *testing.T) {
	seg := Segment{Self: "b", Machines: []Neighbor{{"a", true, Down}, {"b", true, Up}, {"c", true, Up}, {"d", false, Up}}}
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "c", "b"}, Served: true}
	for _, c := range []struct {
		name      string
		change    func(*LinkVIP)
		incumbent string
		owner     string
		none      lb.Reason
	}{
		{"the first that is up", func(*LinkVIP) {}, "", "c", ""},
		{"whoever has it", func(*LinkVIP) {}, "b", "b", ""},
		{"not whoever had it and is down", func(*LinkVIP) {}, "a", "c", ""},
		{"never one that is not active", func(*LinkVIP) {}, "d", "c", ""},
		{"where a pool allows it", func(v *LinkVIP) { v.May = []string{"b"} }, "c", "b", ""},
		{"the pinned one", func(v *LinkVIP) { v.Homes, v.Pinned = []string{"c", "b"}, true }, "b", "c", ""},
		{"with an endpoint", func(v *LinkVIP) { v.Local, v.At = true, []string{"b"} }, "c", "b", ""},
		{"nobody with an endpoint", func(v *LinkVIP) { v.Local, v.At = true, []string{"a"} }, "", "", lb.NoLocalEndpoint},
		{"nobody without endpoints", func(v *LinkVIP) { v.Served = false }, "b", "", lb.NoEndpoint},
		{"nobody with endpoints that the proxy does not know of", func(v *LinkVIP) { v.Served, v.NotFollowed = false, true }, "b", "", lb.EndpointsNotFollowed},
	} {
		v := vip
		c.change(&v)
		if owner, none := seg.Owner(v, c.incumbent); owner != c.owner || none != c.none {
			t.Errorf("%s: %q %q, want %q %q", c.name, owner, none, c.owner, c.none)
		}
	}
}

func TestAnEditThatBringsManyMachinesSilencesNobody(t *testing.T) {
	seg := Segment{Self: "a", Before: []string{"a", "b"}, Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Unheard}, {"d", true, Unheard}, {"e", true, Unheard}}}
	if q := seg.Quorum(); q != Majority {
		t.Errorf("before it can have heard of them: %v", q)
	}
	for i := 2; i < 5; i++ {
		seg.Machines[i].Standing = Down
	}
	if q := seg.Quorum(); q != NoQuorum {
		t.Errorf("once they were waited for: %v", q)
	}
}

func TestTheOnlyMachineOfALinkAnswersOnWhileItIsDrained(t *testing.T) {
	seg := Segment{Self: "b", Lingers: true, Machines: []Neighbor{{"a", false, Up}, {"b", false, Leaving}}}
	if q := seg.Quorum(); q != Majority {
		t.Errorf("long after the edit that takes it out of service: %v", q)
	}
	seg.Machines[0].Active = true
	seg.Machines[0].Standing = Down
	if q := seg.Quorum(); q != NoQuorum {
		t.Errorf("where another machine is in service: %v", q)
	}
}
