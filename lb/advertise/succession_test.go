package advertise

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEachVIPHasOneOwnerAndTheyHaveAsManyAsEachOther(t *testing.T) {
	l := newLAN(t, 3, 10, true)
	l.run(5 * time.Second)
	count := map[string]int{}
	for _, owner := range l.owners() {
		count[owner]++
	}
	if len(l.owners()) != 10 || count["m1 "] < 3 || count["m2 "] < 3 || count["m3 "] < 3 {
		t.Fatalf("owners %v", l.owners())
	}
}

func TestADeathMovesOnlyWhatTheDeadHadAndAReturnMovesNothing(t *testing.T) {
	l := newLAN(t, 5, 50, true)
	l.run(5 * time.Second)
	before, moves := l.owners(), l.moves
	lost := 0
	for _, owner := range before {
		if owner == "m2 " {
			lost++
		}
	}
	l.dead["m2"], l.claims["m2"] = true, nil
	l.regroup(l.group)
	l.run(5 * time.Second)
	after := l.owners()
	count := map[string]int{}
	for vip, owner := range after {
		if before[vip] != "m2 " && before[vip] != owner {
			t.Fatalf("%v moved from %sto %s", vip, before[vip], owner)
		}
		count[owner]++
	}
	for name, n := range count {
		if n < 12 || n > 13 {
			t.Errorf("%shas %d of 50 VIPs: %v", name, n, count)
		}
	}
	if l.moves-moves != lost || len(after) != 50 {
		t.Fatalf("%d moves where the dead had %d, %d VIPs have an owner", l.moves-moves, lost, len(after))
	}
	delete(l.dead, "m2")
	l.start("m2")
	l.regroup(l.group)
	l.run(10 * time.Second)
	if got := l.owners(); fmt.Sprint(got) != fmt.Sprint(after) {
		t.Fatalf("a return moved VIPs: %v, before %v", got, after)
	}
	if l.doubled > 0 {
		t.Fatalf("two answered for %v", l.doubled)
	}
}

// Law: the death of a machine moves what that machine had and nothing else, and its return what is pinned to it and nothing
// else.
func TestADeathMovesWhatTheDeadHadAndAReturnWhatIsPinnedToIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLAN(t, rapid.IntRange(2, 6).Draw(t, "machines"), rapid.IntRange(1, 10).Draw(t, "vips"), true)
		l.pinAtRandom(t)
		l.run(5 * time.Second)
		for range rapid.IntRange(1, 3).Draw(t, "deaths") {
			mortal := rapid.SampledFrom(l.names).Draw(t, "who")
			before := l.owners()
			l.dead[mortal], l.claims[mortal] = true, nil
			l.regroup(l.group)
			l.run(10 * time.Second)
			without := l.owners()
			for _, v := range l.vips {
				was, is := before[v.VIP], without[v.VIP]
				if strings.Count(is, "m") != 1 || was != mortal+" " && was != is {
					t.Fatalf("%s had %v; when %s died %q did", was, v.VIP, mortal, is)
				}
			}
			delete(l.dead, mortal)
			l.start(mortal)
			l.regroup(l.group)
			l.run(10 * time.Second)
			after := l.owners()
			for _, v := range l.vips {
				want := without[v.VIP]
				if v.Pinned && v.Homes[0] == mortal {
					want = mortal + " "
				}
				if after[v.VIP] != want {
					t.Fatalf("%q has %v after the return of %s, want %q", after[v.VIP], v.VIP, mortal, want)
				}
			}
		}
	})
}

func TestMachinesThatBeginOneAfterTheOtherHaveAsManyVIPsAsEachOther(t *testing.T) {
	l := newLAN(t, 3, 9, true)
	for _, name := range l.names[1:] {
		l.dead[name] = true
	}
	l.regroup(l.group)
	for _, name := range l.names[1:] {
		l.run(2 * time.Second)
		delete(l.dead, name)
		l.start(name)
		l.regroup(l.group)
	}
	l.run(20 * time.Second)
	for _, name := range l.names {
		if len(l.claims[name]) != 3 {
			t.Errorf("owners %v", l.owners())
		}
	}
}

func TestAnOwnerThatIsCutOffFallsSilentAndAnotherFollows(t *testing.T) {
	l := newLAN(t, 3, 6, true)
	l.run(5 * time.Second)
	l.nobody = 0
	l.regroup(map[string]int{"m1": 1})
	l.run(detect + 2*tick)
	if len(l.claims["m1"]) > 0 || len(l.owners()) != 6 || l.nobody > detect+2*tick {
		t.Fatalf("m1 claims %v, all %v, nobody for %v", l.claims["m1"], l.owners(), l.nobody)
	}
	was := l.owners()
	l.regroup(map[string]int{})
	l.run(10 * time.Second)
	if got := l.owners(); fmt.Sprint(got) != fmt.Sprint(was) || l.doubled > 0 {
		t.Fatalf("once it is back: %v, two answered for %v", got, l.doubled)
	}
}

// A majority without the gateway and a minority with it both answer, each on its side. Machines that see each
// other again know that before the minority would have looked the next time.
func TestAMinorityThatServedLooksOnceMoreWhenItIsOneWithTheMajority(t *testing.T) {
	for _, knows := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond, joins} {
		l := newLAN(t, 5, 6, true)
		l.joins = knows
		l.run(5 * time.Second)
		l.regroup(map[string]int{"m1": 1, "m2": 1, "m5": 1})
		l.run(5 * time.Second)
		if n := len(l.claimants(l.vips[0].VIP, "m1")) + len(l.claimants(l.vips[0].VIP, "m3")); n != 2 {
			t.Fatalf("%d answer while the two sides are apart: %v", n, l.claims)
		}
		l.regroup(map[string]int{})
		l.nobody = 0
		l.run(5 * time.Second)
		if limit := min(knows, careful) + detect + 2*tick; l.doubled > limit || l.nobody > 0 {
			t.Errorf("known after %v: two answered for %v, want %v at most, and nobody for %v: %v", knows, l.doubled, limit, l.nobody, l.claims)
		}
	}
}

func TestTheLastOfThreeMachinesServesWhereItSeesTheGatewayAndOnlyThere(t *testing.T) {
	for _, witness := range []bool{true, false} {
		l := newLAN(t, 3, 6, witness)
		l.run(5 * time.Second)
		for _, name := range []string{"m1", "m2"} {
			l.dead[name], l.claims[name] = true, nil
		}
		l.regroup(l.group)
		l.run(2 * time.Second)
		want := 0
		if witness {
			want = 6
		}
		if got := len(l.claims["m3"]); got != want {
			t.Errorf("witness %v: the third answers for %d of 6", witness, got)
		}
		l.run(10 * time.Second)
		if got := len(l.claims["m3"]); got != want {
			t.Errorf("witness %v: the third answers for %d of 6 after a while", witness, got)
		}
	}
}

func TestOtherHomesMoveAVIPWithoutAGapInWhateverOrderTheyAreLearned(t *testing.T) {
	for _, first := range []string{"m1", "m2", "m3"} {
		l := newLAN(t, 3, 6, true)
		l.run(5 * time.Second)
		l.nobody, l.doubled = 0, 0
		l.rehome(0, func() time.Duration { return l.now + 400*time.Millisecond })
		l.learns[first] = l.now
		l.run(4 * time.Second)
		want := l.vips[0].Homes[0] + " "
		if got := l.owners()[l.vips[0].VIP]; got != want || l.nobody > 0 || l.doubled > 400*time.Millisecond+tick {
			t.Errorf("learned by %s first: %s answers, want %s; nobody for %v, two for %v", first, got, want, l.nobody, l.doubled)
		}
	}
}

// An agent without the API server learns of other homes when it has it back.
func TestOtherHomesThatOneLearnsLateLeaveNobodyWithoutAnAnswer(t *testing.T) {
	late := []time.Duration{0, time.Second, 3 * time.Second, 30 * time.Second}
	for _, a := range late {
		for _, b := range late {
			for _, c := range late {
				l := newLAN(t, 3, 6, true)
				l.run(5 * time.Second)
				l.nobody, l.doubled = 0, 0
				l.rehome(0, func() time.Duration { return 0 })
				for i, after := range []time.Duration{a, b, c} {
					l.learns[l.names[i]] = l.now + after
				}
				l.run(60 * time.Second)
				got := l.owners()[l.vips[0].VIP]
				if l.nobody > 0 || l.doubled > yields+detect || strings.Count(got, "m") != 1 {
					t.Errorf("learned after %v: %s answers in the end, nobody did for %v, two for %v", []time.Duration{a, b, c}, got, l.nobody, l.doubled)
				}
			}
		}
	}
}

// Each of two leaves the VIP of a machine that died to the other one.
func TestAMachineThatDiesIsFollowedThoughTheOthersKnowDifferentHomes(t *testing.T) {
	l := newLAN(t, 3, 1, true)
	homes := func(names ...string) []LinkVIP {
		v := l.vips[0]
		v.Homes = names
		return []LinkVIP{v}
	}
	for i, v := range [][]LinkVIP{homes("m1", "m2", "m3"), homes("m1", "m3", "m2"), homes("m1", "m2", "m3")} {
		l.knows[l.names[i]], l.learns[l.names[i]] = v, l.now+time.Hour
	}
	l.run(settles + 5*time.Second)
	if got := l.owners()[l.vips[0].VIP]; got != "m1 " {
		t.Fatalf("%s answers", got)
	}
	l.nobody = 0
	l.dead["m1"], l.claims["m1"] = true, nil
	l.regroup(l.group)
	l.run(20 * time.Second)
	if got := l.owners()[l.vips[0].VIP]; strings.Count(got, "m") != 1 || l.nobody > detect+250*time.Millisecond+2*(verifiesAgain+detect)+4*tick {
		t.Errorf("%s answers, and nobody did for %v", got, l.nobody)
	}
}

func TestAVIPGoesBackToTheMachineThatItIsPinnedToWithoutAGap(t *testing.T) {
	for machines := 2; machines <= 4; machines++ {
		l := newLAN(t, machines, 1, true)
		l.vips[0].Homes, l.vips[0].Pinned = slices.Clone(l.names), true
		l.run(5 * time.Second)
		l.dead["m1"], l.claims["m1"] = true, nil
		l.regroup(l.group)
		l.run(10 * time.Second)
		if got := l.owners()[l.vips[0].VIP]; got != "m2 " {
			t.Fatalf("%s answers while m1 is dead", got)
		}
		l.nobody, l.doubled = 0, 0
		delete(l.dead, "m1")
		l.start("m1")
		l.regroup(l.group)
		l.run(10 * time.Second)
		if got := l.owners()[l.vips[0].VIP]; got != "m1 " || l.nobody > 0 || l.doubled > detect {
			t.Errorf("of %d machines %s answers, nobody for %v, two for %v", machines, got, l.nobody, l.doubled)
		}
	}
}

func TestAMachineThatLeavesIsFollowedBeforeItFallsSilent(t *testing.T) {
	l := newLAN(t, 3, 9, true)
	l.run(5 * time.Second)
	l.nobody = 0
	l.leaving["m3"] = true
	l.run(3 * time.Second)
	if len(l.claims["m3"]) > 0 || l.nobody > 0 || l.doubled > tick || len(l.owners()) != 9 {
		t.Fatalf("m3 claims %v, nobody for %v, two for %v, all %v", l.claims["m3"], l.nobody, l.doubled, l.owners())
	}
}

// Law: once cuts are over, between any two machines and with machines that stood still, one machine answers for each
// address a second after all are up.
func TestWhateverWasCutOneAnswersSoonAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLAN(t, rapid.IntRange(2, 5).Draw(t, "machines"), 4, rapid.Bool().Draw(t, "witness"))
		l.run(time.Duration(rapid.IntRange(5, 30).Draw(t, "seconds before")) * time.Second)
		for range rapid.IntRange(1, 4).Draw(t, "cuts") {
			l.cutAtRandom(t)
			l.run(time.Duration(rapid.IntRange(1, 6000).Draw(t, "for")) * time.Millisecond)
		}
		l.apart = nil
		for _, name := range l.names {
			if l.isStill(name) {
				l.thaw(name)
			}
		}
		l.regroup(map[string]int{})
		l.run(joins + careful)
		l.doubled, l.twice, l.nobody, l.absent = 0, 0, 0, 0
		was := l.owners()
		l.run(20 * time.Second)
		if got := l.owners(); l.doubled > 0 || l.nobody > 0 || fmt.Sprint(got) != fmt.Sprint(was) {
			t.Fatalf("two answered for %v, nobody for %v: %v, and %v at first", l.doubled, l.nobody, got, was)
		}
	})
}

// Law: however a segment is cut and healed, two answer for an address on one side of a cut no longer than
// the detection time, and nobody no longer than it takes to look where somebody is to.
func TestWhateverIsCutOneAnswersOnEachSideThatMayServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines := rapid.IntRange(1, 7).Draw(t, "machines")
		l := newLAN(t, machines, 4, rapid.Bool().Draw(t, "witness"))
		l.run(5 * time.Second)
		for range rapid.IntRange(1, 6).Draw(t, "events") {
			group := map[string]int{}
			for _, name := range l.names {
				group[name] = rapid.IntRange(0, 2).Draw(t, "group")
				switch dies := rapid.IntRange(0, 5).Draw(t, "dies"); {
				case l.dead[name] && dies < 3:
					delete(l.dead, name)
					l.start(name)
				case dies == 0:
					l.dead[name], l.claims[name] = true, nil
				}
			}
			l.regroup(group)
			if rapid.Bool().Draw(t, "other homes") {
				l.rehome(rapid.IntRange(0, len(l.vips)-1).Draw(t, "of"), func() time.Duration {
					return l.now + time.Duration(rapid.IntRange(0, 800).Draw(t, "learned after"))*time.Millisecond
				})
			}
			l.doubled, l.twice = 0, 0
			l.run(time.Duration(rapid.IntRange(1, 6000).Draw(t, "for")) * time.Millisecond)
			if l.doubled > joins+detect+tick { // a tick is how finely it is measured
				t.Fatalf("two answered on one side for %v: %v", l.doubled, l.claims)
			}
		}
		l.run(25 * time.Second)
		for _, name := range l.names {
			for _, v := range l.vips {
				if l.dead[name] {
					continue
				}
				all := l.claimants(v.VIP, name)
				if want := l.isToServe(name); len(all) > 1 || want != (len(all) == 1) {
					t.Fatalf("%v is answered for by %v on the side of %s, which is to serve: %v", v.VIP, all, name, want)
				}
			}
		}
	})
}

// Law: machines that know adjacent generations of the inventory, of which one takes machines out and brings others, are not
// two owners of an address on one side of a cut for longer than two insist on it; when all know the newer one, and the older
// one counts no more, one that is active has it wherever somebody is to.
func TestOfTwoAdjacentGenerationsOneAnswersOnEachSide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLAN(t, rapid.IntRange(2, 5).Draw(t, "machines"), 2, rapid.Bool().Draw(t, "witness"))
		l.run(5 * time.Second)
		cut := func() {
			group := map[string]int{}
			for _, name := range l.names {
				group[name] = rapid.IntRange(0, 1).Draw(t, "group")
			}
			l.regroup(group)
			l.doubled, l.twice = 0, 0
		}
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			active := map[string]bool{}
			for _, name := range l.names {
				active[name] = rapid.IntRange(0, 2).Draw(t, "active") > 0
			}
			active[l.names[rapid.IntRange(0, len(l.names)-1).Draw(t, "one at least")]] = true
			l.edit(active, func() time.Duration {
				return l.now + time.Duration(rapid.IntRange(0, 20).Draw(t, "learned after"))*100*time.Millisecond
			})
			for range rapid.IntRange(1, 3).Draw(t, "cuts") {
				cut()
				l.run(time.Duration(rapid.IntRange(1, 4000).Draw(t, "for")) * time.Millisecond)
				if l.doubled > yields+detect+tick { // what two insist on that know different ones
					t.Fatalf("two answered on one side for %v: %v", l.doubled, l.claims)
				}
			}
			l.run(2 * time.Second) // all know it
		}
		l.run(joint + 25*time.Second)
		for _, name := range l.names {
			for _, v := range l.vips {
				all := l.claimants(v.VIP, name)
				if want := l.isToServe(name); len(all) > 1 || want != (len(all) == 1) {
					t.Fatalf("%v is answered for by %v on the side of %s, which is to serve: %v; active %v", v.VIP, all, name, want, l.active)
				}
				if len(all) == 1 && !l.active[all[0]] {
					t.Fatalf("%v is answered for by %v, which is not active", v.VIP, all)
				}
			}
		}
	})
}
