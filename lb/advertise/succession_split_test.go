package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	// late is how much longer than the detection time it takes until another machine answers: the last packet is up to
	// an interval old by then, and the kernel of whoever is lost is asked.
	late = 150 * time.Millisecond
	// byGateway is how long a minority that sees the gateway takes.
	byGateway = 2 * time.Second
)

// phase is how a segment is cut for a while.
type phase struct {
	group      map[string]int
	apart      map[[2]string]bool
	runs       map[string]bool
	goesOn     map[string]bool // since it began
	transitive bool
}

func (l *lan) phase(before phase) phase {
	p := phase{group: l.group, apart: l.apart, runs: map[string]bool{}, goesOn: map[string]bool{}, transitive: len(l.apart) == 0}
	for _, name := range l.names {
		p.runs[name] = l.runs(name)
		p.goesOn[name] = p.runs[name] && before.runs != nil && !before.runs[name]
	}
	return p
}

// side are the machines that one sees, itself included, whose agents run.
func (p phase) side(of string, names []string) (side []string) {
	for _, name := range names {
		if p.runs[name] && p.group[name] == p.group[of] && !p.apart[[2]string{of, name}] {
			side = append(side, name)
		}
	}
	return side
}

// isMajority reports whether machines are more than half of all, or the half with the first.
func isMajority(of, all []string) bool {
	return 2*len(of) > len(all) || 2*len(of) == len(all) && slices.Contains(of, all[0])
}

// wereTogether reports whether enough machines of a side for a majority saw each other before, and none has just gone on.
func (l *lan) wereTogether(side []string, was, is phase) bool {
	if !was.transitive || slices.ContainsFunc(side, func(name string) bool { return is.goesOn[name] }) {
		return false
	}
	return slices.ContainsFunc(side, func(name string) bool {
		before := slices.DeleteFunc(was.side(name, l.names), func(b string) bool { return !slices.Contains(side, b) })
		return isMajority(before, l.names)
	})
}

// merges reports whether a side comes from more than one that served before. Of two that stood still each comes back with what it had.
func (l *lan) merges(side []string, was, is phase) bool {
	back := slices.DeleteFunc(slices.Clone(side), func(name string) bool { return !is.goesOn[name] })
	if !was.transitive || len(back) > 1 {
		return true
	}
	served := map[string]bool{}
	for _, name := range side {
		before := was.side(name, l.names)
		if len(before) > 0 && (isMajority(before, l.names) || l.witness && was.group[name] == 0) {
			served[before[0]] = true
		}
	}
	return len(served) > 1
}

// limits are for how long nobody may answer on a side, 0: for ever, and for how long two may.
func (l *lan) limits(side []string, was, is phase) (nobody, two time.Duration) {
	two = detect
	if l.merges(side, was, is) {
		two = careful + detect
	}
	switch {
	case isMajority(side, l.names) && l.wereTogether(side, was, is):
		return detect + late, two
	case isMajority(side, l.names):
		return joins + detect + detect + late, two
	case l.witness && is.group[side[0]] == 0:
		return byGateway, two
	}
	return 0, two
}

// runAndJudge runs for a while in which nothing changes, and fails where nobody or two answer for too long on a side.
func (l *lan) runAndJudge(d time.Duration, was, is phase) {
	if !is.transitive {
		l.run(d)
		return
	}
	type seat struct {
		first string
		vip   netip.Addr
	}
	silent, twice := map[seat]time.Duration{}, map[seat]time.Duration{}
	sides := map[string][]string{}
	for _, name := range l.names {
		if side := is.side(name, l.names); len(side) > 0 && is.runs[name] {
			sides[side[0]] = side
		}
	}
	begun := l.now
	for end := l.now + d; l.now < end; {
		l.run(tick)
		for first, side := range sides {
			nobody, two := l.limits(side, was, is)
			if nobody != 0 && l.hasSuspended(first) {
				nobody += verifiesAgain // who takes it for the owner looks twice before it follows it
			}
			for _, v := range l.vips {
				at := seat{first, v.VIP}
				all := l.claimants(v.VIP, first)
				if len(all) > 0 || nobody == 0 || l.awaits(first, v.VIP) || l.awaitsOwner(first, v.VIP, was) {
					silent[at] = l.now
				}
				if len(all) < 2 {
					twice[at] = l.now
				}
				if since := max(silent[at], begun); l.now-since > nobody+2*tick {
					l.t.Fatalf("nobody answers for %v on the side of %v for %v, want %v at most\n%s", v.VIP, side, l.now-since, nobody, l.told(was, is))
				}
				if since := max(twice[at], begun); l.now-since > two+2*tick {
					l.t.Fatalf("%v answer for %v on the side of %v for %v, want %v at most\n%s", all, v.VIP, side, l.now-since, two, l.told(was, is))
				}
			}
		}
	}
}

// awaits reports whether whoever answered for a VIP is suspended, and its kernel answers this side: who follows waits.
func (l *lan) awaits(side string, vip netip.Addr) bool {
	return slices.ContainsFunc(l.names, func(name string) bool {
		return l.stopped[name] != 0 && l.reach(side, name) && slices.Contains(l.claims[name], vip)
	})
}

// awaitsOwner reports whether the first machine of a side waits for an owner that was suspended before it took the VIP: one of
// the two did not see all others before, so that each had an owner of its own in mind. The machine waits as long as
// the owner may be holding (RestartTime of package mesh), which no segment here ends.
func (l *lan) awaitsOwner(side string, vip netip.Addr, was phase) bool {
	tenure := l.brains[side].vips[vip]
	if tenure == nil || tenure.incumbent.heir || tenure.incumbent.unsure {
		return false
	}
	owner := tenure.incumbent.name
	sawNotAll := slices.ContainsFunc(l.names, func(name string) bool { return was.apart[[2]string{side, name}] || was.apart[[2]string{owner, name}] })
	return sawNotAll && l.stopped[owner] != 0 && l.standing(side, owner) == Holding
}

// hasSuspended reports whether a kernel answers this side whose agent is suspended.
func (l *lan) hasSuspended(side string) bool {
	return slices.ContainsFunc(l.names, func(name string) bool { return l.stopped[name] != 0 && l.reach(side, name) })
}

func (l *lan) told(was, is phase) string {
	text := fmt.Sprintf("before: %+v\nnow: %+v", was, is)
	for _, name := range l.names {
		if l.runs(name) {
			text += fmt.Sprintf("\n%s sees %v: %v", name, l.segment(name).Machines, l.said[name])
		}
	}
	return text
}

// Law: while a segment is cut, on each side that is to serve somebody answers within the time that a failure of that
// kind takes, and two no longer than the detection time: whichever machines stood still, or their agents, and went on.
func TestWhileACutLastsOneAnswersOnEachSideThatIsToServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { cutAndJudge(t, func() map[[2]int]bool { return nil }) })
}

// Law: the same where frames pass from one side of a cut to another, and none comes back.
func TestWhatIsHeardAcrossACutTakesNoVIPFromASide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cutAndJudge(t, func() map[[2]int]bool {
			from, to := rapid.IntRange(0, 2).Draw(t, "from"), rapid.IntRange(0, 2).Draw(t, "to")
			return map[[2]int]bool{{from, to}: from != to}
		})
	})
}

// cutAndJudge cuts a segment again and again. leaks draws which groups are heard by which others, where nothing comes back.
func cutAndJudge(t *rapid.T, leaks func() map[[2]int]bool) {
	l := newLAN(t, rapid.IntRange(2, 5).Draw(t, "machines"), 4, rapid.Bool().Draw(t, "witness"))
	l.run(time.Duration(rapid.IntRange(16, 30).Draw(t, "seconds before")) * time.Second)
	was := l.phase(phase{})
	for range rapid.IntRange(1, 6).Draw(t, "cuts") {
		l.cutAtRandom(t)
		l.leaks = leaks()
		is := l.phase(was)
		l.runAndJudge(time.Duration(rapid.IntRange(3000, 8000).Draw(t, "for"))*time.Millisecond, was, is)
		was = is
	}
}

// cut is a phase of a case: the group of each machine in turn, and those that stand still, or whose agents do.
type cut struct {
	group           []int
	frozen, stopped []string
	near, far       time.Duration // until two that see each other again know it; far: the first machine and the last
}

func (l *lan) cutAs(c cut) {
	group := map[string]int{}
	l.apart, l.upAfter = nil, map[[2]string]time.Duration{}
	for i, a := range l.names {
		group[a] = c.group[i]
		for _, b := range l.names {
			l.upAfter[[2]string{a, b}] = c.near
		}
		isFrozen, isStopped := slices.Contains(c.frozen, a), slices.Contains(c.stopped, a)
		switch {
		case l.isStill(a) && !isFrozen && !isStopped:
			l.thaw(a)
		case isFrozen:
			l.frozen[a] = true
			delete(l.stopped, a)
		case isStopped && l.stopped[a] == 0:
			l.stopped[a] = l.now
		}
	}
	first, last := l.names[0], l.names[len(l.names)-1]
	l.upAfter[[2]string{first, last}], l.upAfter[[2]string{last, first}] = c.far, c.far
	l.regroup(group)
}

// TestCutsThatOnceLeftNobodyOrTwo, each of which the law above has found, however long it takes until machines know that
// they see each other.
func TestCutsThatOnceLeftNobodyOrTwo(t *testing.T) {
	for name, cuts := range map[string][]cut{
		"one waits for an agent that never answered": {
			{group: []int{2, 0, 1, 1, 1}, frozen: []string{"m3"}},
			{group: []int{2, 1, 2, 0, 0}, frozen: []string{"m1", "m2", "m3"}, stopped: []string{"m5"}},
		},
		"one that stood still is heard by some before others": {
			{group: []int{0, 1, 1}, frozen: []string{"m1"}},
			{group: []int{2, 2, 2}},
		},
		"two leave it to each other": {
			{group: []int{1, 2, 0}},
			{group: []int{0, 2, 2}, frozen: []string{"m1"}},
			{group: []int{1, 1, 1}, frozen: []string{"m2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			knows := []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond, 1040 * time.Millisecond, 1320 * time.Millisecond}
			for _, near := range knows {
				for _, far := range knows {
					l := newLAN(t, len(cuts[0].group), 8, true)
					l.run(settles + time.Second)
					was := l.phase(phase{})
					for _, c := range cuts {
						c.near, c.far = near, far
						l.cutAs(c)
						is := l.phase(was)
						l.runAndJudge(4*time.Second, was, is)
						was = is
					}
				}
			}
		})
	}
}
