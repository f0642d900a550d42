package advertise

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
)

func TestWhatTheProcessBeforeAnsweredForStaysWhoeverIsHeardFirst(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "a", "c"}, Served: true}
	for _, other := range []Standing{Unheard, Up} {
		s := NewSuccession([]netip.Addr{vip.VIP})
		seg := Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, other}, {"c", true, other}}}
		if out := s.Step(time.Hour, seg, []LinkVIP{vip}); len(out.Probes) != 1 || len(out.Claims) != 0 {
			t.Fatalf("others %v: at first %+v", other, out)
		}
		for i := range seg.Machines {
			seg.Machines[i].Standing = Up
		}
		s.Step(time.Hour, seg, []LinkVIP{vip})
		s.Probed(time.Hour, vip.VIP, Found{})
		if out := s.Step(time.Hour, seg, []LinkVIP{vip}); len(out.Claims) != 1 {
			t.Fatalf("others %v: nobody else answers, and it does not: %+v", other, out)
		}
	}
}

func TestTheFirstHomeLeavesAVIPToAnAgentThatIsAway(t *testing.T) {
	seg := func(other Standing) Segment {
		return Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, other}, {"c", true, Up}}}
	}
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b", "c"}, Served: true}
	s := NewSuccession(nil)
	s.Step(time.Hour, seg(Up), []LinkVIP{vip})
	s.Probed(time.Hour, vip.VIP, Found{Machine: "b"})
	for at := time.Hour; at < time.Hour+time.Minute; at += time.Second {
		if out := s.Step(at, seg(Holding), []LinkVIP{vip}); len(out.Probes)+len(out.Claims) > 0 || out.Owners[0].Owner != "b" {
			t.Fatalf("after %v: %+v", at-time.Hour, out)
		}
	}
	s.Step(time.Hour+time.Minute, seg(Up), []LinkVIP{vip})
	out := s.Step(time.Hour+time.Minute+verifies, seg(Up), []LinkVIP{vip})
	if len(out.Probes) != 1 {
		t.Fatalf("whether it answers again is not looked for: %+v", out)
	}
	at := time.Hour + time.Minute + verifies
	s.Probed(at, vip.VIP, Found{})
	if out = s.Step(at, seg(Up), []LinkVIP{vip}); len(out.Claims) != 0 {
		t.Fatalf("b's agent may have ended a moment ago: %+v", out)
	}
	at += verifiesAgain
	if out = s.Step(at, seg(Up), []LinkVIP{vip}); len(out.Probes) != 1 {
		t.Fatalf("it is not looked once more: %+v", out)
	}
	s.Probed(at, vip.VIP, Found{})
	if out = s.Step(at, seg(Up), []LinkVIP{vip}); len(out.Claims) != 1 {
		t.Fatalf("b does not answer: %+v", out)
	}
}

// Nobody steps while an agent is away: there is nothing to decide.
func TestTheFirstHomeGivesAnAgentThatIsBackTheTimeToAnswerAgain(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.168.1.200"), Homes: []string{"b", "a"}, Served: true}
	seg := func(of Standing) Segment {
		return Segment{Self: "b", Machines: []Neighbor{{"a", true, of}, {"b", true, Up}, {"c", true, Up}}}
	}
	s, now := NewSuccession(nil), time.Hour
	step := func(of Standing) Step { return s.Step(now, seg(of), []LinkVIP{vip}) }
	step(Up)
	now += settles
	step(Up)
	s.Probed(now, vip.VIP, Found{Machine: "a"})
	step(Up)
	step(Holding)
	now += 2 * verifies
	if out := step(Up); len(out.Probes)+len(out.Claims) > 0 {
		t.Fatalf("it is looked at once whether a answers, which has just begun: %+v", out)
	}
	now += verifies
	if out := step(Up); len(out.Probes) != 1 {
		t.Fatalf("it is not looked whether a answers: %+v", out)
	}
}

// Frames are lost in one direction: b hears nobody, sees the gateway, and claims what it finds nobody to answer for.
func TestAMajorityGivesWayToNoMachineThatHearsNothing(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"d", "b", "c"}, Served: true}
	for b, givesWay := range map[Standing]bool{Down: false, Up: true} { // that is up it is of another mind about the order
		s, now := NewSuccession(nil), time.Hour
		step := func(b Standing, active bool) Step {
			return s.Step(now, Segment{Self: "d", Machines: []Neighbor{{"b", active, b}, {"c", true, Up}, {"d", true, Up}}}, []LinkVIP{vip})
		}
		step(Up, true)
		now += settles
		step(Up, true)
		s.Probed(now, vip.VIP, Found{})
		if out := step(Up, true); len(out.Claims) != 1 {
			t.Fatalf("d does not answer: %+v", out)
		}
		gaveWay := false
		for range 10 {
			now += 500 * time.Millisecond
			if out := step(b, b == Down); out.Quorum != Majority {
				t.Fatalf("the quorum is %s", out.Quorum)
			}
			s.Heard(now, vip.VIP, "b")
			gaveWay = gaveWay || len(step(b, b == Down).Claims) == 0
		}
		if gaveWay != givesWay {
			t.Errorf("b is %s: d gives way to it: %t, want %t", b, gaveWay, givesWay)
		}
	}
}

// Two that come together each had the VIP: one finds the other in the moment in which that one hears it, and gives way.
func TestTwoThatGiveWayInOneMomentDoNotLeaveItToEachOther(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b", "c"}, Served: true}
	s, now := NewSuccession(nil), time.Hour
	step := func(others Standing) Step {
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, others}, {"c", true, others}}, Witness: WitnessAnswers}, []LinkVIP{vip})
	}
	step(Up)
	now += settles
	step(Down)
	s.Probed(now, vip.VIP, Found{})
	if out := step(Down); len(out.Claims) != 1 || out.Quorum != Careful {
		t.Fatalf("a does not answer: %+v", out)
	}
	now += trust
	if out := step(Up); len(out.Probes) != 1 || len(out.Claims) != 0 {
		t.Fatalf("a does not look before it goes on: %+v", out)
	}
	s.Probed(now, vip.VIP, Found{Machine: "b"})
	if out := step(Up); len(out.Probes) != 1 || len(out.Claims) != 0 {
		t.Fatalf("a does not look whether b has given way: %+v", out)
	}
	s.Probed(now, vip.VIP, Found{})
	if out := step(Up); len(out.Claims) != 1 {
		t.Fatalf("nobody answers, and a leaves it to b: %+v", out)
	}
}

// A machine that stood still finds the others where it left them, and may be taken for the owner
// by the very one that it takes for it.
func TestAMachineThatWasCutOffLooksAtOnceWhoAnswers(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "a", "c"}, Served: true}
	for name, witness := range map[string]Witness{"silent": WitnessSilent, "careful": WitnessAnswers} {
		s, now := NewSuccession(nil), time.Hour
		step := func(others Standing) Step {
			seg := Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, others}, {"c", true, others}}, Witness: witness}
			return s.Step(now, seg, []LinkVIP{vip})
		}
		step(Up)
		now += settles
		step(Up)
		s.Probed(now, vip.VIP, Found{Machine: "b"})
		if out := step(Up); len(out.Probes) > 0 || out.Owners[0].Owner != "b" {
			t.Fatalf("%s: b answers, and %+v", name, out)
		}
		now += time.Second
		for range step(Down).Probes {
			s.Probed(now, vip.VIP, Found{Machine: "b"}) // it goes on answering
		}
		step(Down)
		now += time.Second
		if out := step(Up); len(out.Probes) != 1 {
			t.Fatalf("%s: back again it looks for nobody: %+v", name, out)
		}
		s.Probed(now, vip.VIP, Found{})
		now += verifiesAgain
		if out := step(Up); len(out.Probes) != 1 {
			t.Fatalf("%s: nobody answered, and it does not look again: %+v", name, out)
		}
		s.Probed(now, vip.VIP, Found{Machine: "b"})
		now += 2 * verifies
		if out := step(Up); len(out.Probes)+len(out.Claims) > 0 || out.Owners[0].Owner != "b" {
			t.Fatalf("%s: b answers, and %+v", name, out)
		}
	}
}

// Between two of several machines nothing passes, and both have a majority with the others.
func TestAMachineTellsOneThatIsBackWhatItTookMeanwhile(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "a", "c"}, Served: true}
	s, now := NewSuccession(nil), time.Hour
	step := func(b Standing) Step {
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, b}, {"c", true, Up}}}, []LinkVIP{vip})
	}
	step(Up)
	for i, flaps := range []Standing{Down, Up, Down, Up} {
		now += time.Minute
		out := step(flaps)
		if len(out.Claims) != 1 || len(out.Again) == 1 != (i == 1) {
			t.Fatalf("b is %v: %+v", flaps, out)
		}
		if out = step(flaps); len(out.Claims) != 1 || len(out.Again) > 0 {
			t.Fatalf("b is %v still: %+v", flaps, out)
		}
	}
}

// The next in the order is up as long as its silence is not noticed. Its agent ends as the owner does: its kernel
// answers on, and it would be waited for.
func TestAnHeirWhoseAgentEndsBeforeItWasHeardIsNotWaitedFor(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "c", "a"}, Served: true}
	for _, heard := range []bool{false, true} {
		s, now := NewSuccession(nil), time.Hour
		step := func(b, c Standing) Step {
			now += 100 * time.Millisecond
			return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, b}, {"c", true, c}, {"d", true, Up}}}, []LinkVIP{vip})
		}
		step(Up, Up)
		s.Heard(now, vip.VIP, "b")
		if out := step(Down, Up); len(out.Claims) > 0 || out.Owners[0].Owner != "c" {
			t.Fatalf("c is to follow b: %+v", out)
		}
		if heard {
			s.Heard(now, vip.VIP, "c")
		}
		if out := step(Down, Holding); len(out.Claims) == 1 == heard {
			t.Fatalf("c was heard: %v: %+v", heard, out)
		}
	}
}

// Nobody takes a VIP up that the controller gives to a machine whose agent is away.
func TestAVIPThatMovesToAMachineWhoseAgentIsAwayIsTheNextOnes(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "c", "a"}, Served: true}
	s, now := NewSuccession(nil), time.Hour
	step := func() Step {
		now += 100 * time.Millisecond
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Holding}}}, []LinkVIP{vip})
	}
	step()
	s.Heard(now, vip.VIP, "b")
	step()
	vip.Homes = []string{"c", "a", "b"}
	if out := step(); len(out.Claims) != 1 {
		t.Fatalf("c is to have it, and cannot take it: %+v", out)
	}
}

// Others have had longer to see it go, and one of them may answer by now.
func TestAMachineThatWasCutOffDoesNotSucceedOneThatItOnlyTakesForTheOwner(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "a", "c"}, Served: true}
	s, now := NewSuccession(nil), time.Hour
	step := func(b, c Standing) Step {
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, b}, {"c", true, c}}}, []LinkVIP{vip})
	}
	step(Up, Up)
	step(Down, Down)
	step(Up, Up)
	if out := step(Down, Up); len(out.Claims) > 0 {
		t.Fatalf("nobody said who answers, and it does: %+v", out)
	}
	s.Probed(now, vip.VIP, Found{Machine: "c"})
	if out := step(Down, Up); len(out.Claims) > 0 || out.Owners[0].Owner != "c" {
		t.Fatalf("c answers: %+v", out)
	}
}

func TestAMachineThatDiesRightAfterItWasSeenToAnswerIsSucceededAtOnce(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "a", "c"}, Served: true}
	s, now := NewSuccession(nil), time.Hour
	step := func(b Standing) Step {
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, b}, {"c", true, Up}}}, []LinkVIP{vip})
	}
	step(Up)
	s.Probed(now, vip.VIP, Found{Machine: "b"})
	step(Up)
	if out := step(Down); len(out.Claims) != 1 {
		t.Fatalf("b is gone, and nobody answers: %+v", out)
	}
}

// Each of two sides answered without a majority.
func TestOfTwoThatLookAtTheSameTimeOneGoesOn(t *testing.T) {
	vip, now := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b", "c"}, Served: true}, time.Hour
	brains := map[string]*Succession{"a": NewSuccession([]netip.Addr{vip.VIP}), "b": NewSuccession([]netip.Addr{vip.VIP})}
	step := func(name string, others Standing) Step {
		seg := Segment{Self: name, Machines: []Neighbor{{"a", true, others}, {"b", true, others}, {"c", true, others}}, Witness: WitnessAnswers}
		seg.Machines[slices.Index([]string{"a", "b", "c"}, name)].Standing = Up
		return brains[name].Step(now, seg, []LinkVIP{vip})
	}
	for name, s := range brains {
		step(name, Down)
		s.Probed(now, vip.VIP, Found{})
		if len(step(name, Down).Claims) != 1 {
			t.Fatalf("%s does not answer on its side", name)
		}
	}
	for name := range brains {
		if out := step(name, Up); len(out.Probes) != 1 || len(out.Claims) != 1 {
			t.Fatalf("%s: they are one again: %+v", name, out)
		}
	}
	if !brains["a"].Probed(now, vip.VIP, Found{Machine: "b"}) || brains["b"].Probed(now, vip.VIP, Found{Machine: "a"}) {
		t.Error("not the first in the order says so again")
	}
	if a, b := step("a", Up), step("b", Up); len(a.Claims) != 1 || len(b.Claims) != 0 {
		t.Errorf("they go on as %+v and %+v", a, b)
	}
}

func TestAVIPThatWasAnsweredForIsTakenUpAgainAtOnce(t *testing.T) {
	vip, now := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"a", "b"}, Served: true}, time.Hour
	s := NewSuccession(nil)
	step := func(a Standing) Step {
		return s.Step(now, Segment{Self: "b", Machines: []Neighbor{{"a", true, a}, {"b", true, Up}}, Witness: WitnessAnswers}, []LinkVIP{vip})
	}
	step(Up)
	s.Probed(now, vip.VIP, Found{Machine: "a"})
	step(Up)
	for range 2 { // the one that answered may have ended a moment ago
		step(Down)
		s.Probed(now, vip.VIP, Found{})
	}
	if len(step(Down).Claims) != 1 {
		t.Fatal("nobody else is there, and it does not answer")
	}
	now += trust
	if out := step(Down); len(out.Probes) != 1 {
		t.Fatalf("it waits for its first home: %+v", out)
	}
}

// Two that came together take each other for the owner: the one has lost its majority since it was
// found to answer, the other one leaves the VIP to the first in its order.
func TestWhoeverWasCutOffTakesWhatNobodyAnswersFor(t *testing.T) {
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: []string{"b", "a", "c"}, Served: true}
	s, now := NewSuccession(nil), time.Hour
	step := func(others Standing) Step {
		return s.Step(now, Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, others}, {"c", true, others}}}, []LinkVIP{vip})
	}
	step(Up)
	now += settles
	step(Down)
	for range 2 {
		if out := step(Up); len(out.Probes) != 1 || len(out.Claims) > 0 {
			t.Fatalf("nobody answered so far: %+v", out)
		}
		s.Probed(now, vip.VIP, Found{})
		now += verifiesAgain
	}
	now -= verifiesAgain
	if out := step(Up); len(out.Claims) != 1 || out.Owners[0].Owner != "a" {
		t.Fatalf("nobody answers, and it does not: %+v", out)
	}
}

func TestAForeignHostKeepsAnAddressAndIsAskedAgain(t *testing.T) {
	seg := Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}}}
	vip := LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Served: true}
	s := NewSuccession(nil)
	out := s.Step(time.Hour, seg, []LinkVIP{vip})
	if len(out.Probes) != 1 || len(out.Claims) != 0 {
		t.Fatalf("at first %+v", out)
	}
	s.Probed(time.Hour, vip.VIP, Found{Stranger: true})
	out = s.Step(time.Hour, seg, []LinkVIP{vip})
	if len(out.Claims) != 0 || out.Owners[0].Reason != lb.AddressConflict || out.Next != aside {
		t.Fatalf("a stranger has it: %+v", out)
	}
	out = s.Step(time.Hour+aside, seg, []LinkVIP{vip})
	if len(out.Probes) != 1 {
		t.Fatalf("it is not looked for again: %+v", out)
	}
	s.Probed(time.Hour+aside, vip.VIP, Found{})
	if out = s.Step(time.Hour+aside, seg, []LinkVIP{vip}); len(out.Claims) != 1 {
		t.Fatalf("it is free: %+v", out)
	}
}

func TestANewMachineSilencesNobody(t *testing.T) {
	vip, now := netip.MustParseAddr("192.0.2.1"), time.Hour
	vips := []LinkVIP{{VIP: vip, Homes: []string{"a", "b"}, Served: true}}
	seg := Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}}}
	s := NewSuccession([]netip.Addr{vip})
	s.Step(now, seg, vips)
	s.Probed(now, vip, Found{})
	if len(s.Step(now, seg, vips).Claims) != 1 {
		t.Fatal("it does not begin")
	}
	seg.Machines = append(slices.Clone(seg.Machines), Neighbor{"c", true, Unheard})
	if got := s.Step(now+time.Hour, seg, vips).Claims; len(got) != 1 {
		t.Fatalf("it answers for %v once another machine is to come", got)
	}
}

// Each hears the others once a second, as of machines each of which knows other homes.
func TestOfThoseThatEachInsistAllButOneFallSilent(t *testing.T) {
	for _, homes := range []map[string][]string{
		{"a": {"a", "b"}, "b": {"b", "a"}},
		{"a": {"a", "b", "c"}, "b": {"b", "c", "a"}, "c": {"c", "a", "b"}},
	} {
		vip, now := netip.MustParseAddr("192.0.2.1"), time.Hour
		names := slices.Sorted(maps.Keys(homes))
		var machines []Neighbor
		brains, claims := map[string]*Succession{}, map[string]bool{}
		for _, name := range names {
			machines, brains[name] = append(machines, Neighbor{name, true, Up}), NewSuccession(nil)
		}
		for range 30 {
			for _, name := range names {
				vips := []LinkVIP{{VIP: vip, Homes: homes[name], Served: true}}
				seg, s := Segment{Self: name, Machines: machines}, brains[name]
				if out := s.Step(now, seg, vips); len(out.Probes) > 0 && now == time.Hour {
					s.Probed(now, vip, Found{}) // all look at the same time
				} else if len(out.Probes) > 0 {
					s.Probed(now, vip, Found{Machine: homes[name][1]})
				}
				claims[name] = len(s.Step(now, seg, vips).Claims) == 1
			}
			for _, name := range names {
				for _, other := range names {
					if other != name && claims[other] {
						brains[name].Heard(now, vip, other)
					}
				}
			}
			now += time.Second
		}
		for _, name := range names {
			if claims[name] != (name == "a") {
				t.Errorf("who answers after 30 s: %v", claims)
			}
		}
	}
}

func TestADrainedMachineAnswersUntilAnotherOneDoes(t *testing.T) {
	vip, now := netip.MustParseAddr("192.0.2.1"), time.Hour
	vips := []LinkVIP{{VIP: vip, Homes: []string{"a", "b"}, Served: true}}
	seg := func(lingers bool, b Standing) Segment {
		s := Segment{Self: "a", Lingers: lingers, Machines: []Neighbor{{"a", true, Up}, {"b", true, b}}}
		if lingers {
			s.Machines[0] = Neighbor{"a", false, Leaving}
		}
		return s
	}
	for name, b := range map[string]Standing{"nobody follows": Down, "who is to follow does not": Up} {
		s := NewSuccession([]netip.Addr{vip})
		s.Step(now, seg(false, b), vips)
		s.Probed(now, vip, Found{})
		if len(s.Step(now, seg(false, b), vips).Claims) != 1 {
			t.Fatal("it does not begin")
		}
		looked := 0
		for at := now; at < now+10*time.Second; at += time.Second {
			out := s.Step(at, seg(true, b), vips)
			if len(out.Claims) != 1 {
				t.Fatalf("%s: after %v it is silent: %+v", name, at-now, out)
			}
			if len(out.Probes) > 0 {
				looked++
				s.Probed(at, vip, Found{})
			}
		}
		if b != Up {
			continue
		}
		if looked < 5 {
			t.Errorf("it looked %d times whether another one answers", looked)
		}
		s.Heard(now+10*time.Second, vip, "b")
		if out := s.Step(now+10*time.Second, seg(true, b), vips); len(out.Claims) != 0 {
			t.Errorf("b answers, and it goes on: %+v", out)
		}
	}
}

func TestANewVIPWaitsForNoAgentThatIsAway(t *testing.T) {
	old, vip := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	vips := []LinkVIP{{VIP: old, Homes: []string{"b", "a"}, Served: true}}
	seg := Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Up}}}
	s, now := NewSuccession(nil), time.Hour
	s.Step(now, seg, vips)
	s.Heard(now, old, "b")
	now += settles
	s.Step(now, seg, vips)
	seg.Machines[1].Standing = Holding
	vips = append(vips, LinkVIP{VIP: vip, Homes: []string{"b", "a"}, Served: true})
	if out := s.Step(now, seg, vips); !slices.Equal(out.Probes, []netip.Addr{vip}) {
		t.Fatalf("it looks for %v", out.Probes)
	}
	s.Probed(now, vip, Found{})
	if out := s.Step(now, seg, vips); !slices.Equal(out.Claims, []netip.Addr{vip}) {
		t.Fatalf("it claims %v: b has %v, whose agent is away, and nobody has the new one", out.Claims, old)
	}
}
