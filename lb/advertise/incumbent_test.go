package advertise

import "testing"

// newFollower returns machine a, which has been there for a while and has heard b answer.
func newFollower(homes ...string) *member {
	m := newMember(homes...)
	m.step()
	m.now += settles
	m.step()
	m.heard("b")
	m.step()
	return m
}

func TestOtherHomesBehindTheIncumbentMoveNothing(t *testing.T) {
	m := newFollower("b", "a", "c")
	m.see(Holding, Up)
	m.vip.Homes = []string{"b", "c", "a"}
	if out := m.step(); out.Owners[0].Owner != "b" || len(out.Claims) > 0 {
		t.Errorf("b may answer: %+v", out)
	}
}

func TestOtherHomesMoveNoVIPOfAnUnknownIncumbent(t *testing.T) {
	m := newMember("a", "b", "c")
	m.step()
	m.vip.Homes = []string{"a", "c", "b"}
	if out := m.step(); len(out.Claims) > 0 {
		t.Errorf("another one may answer: %+v", out)
	}
}

func TestAnOwnerWhoseVIPHasNoHomesAnyMoreAnswersOn(t *testing.T) {
	m := newOwner(t)
	m.vip.Homes = nil
	if out := m.step(); len(out.Claims) != 1 {
		t.Errorf("it falls silent: %+v", out)
	}
}

func TestAFreeVIPIsLeftToAHomeWhoseAgentIsAway(t *testing.T) {
	m := newMember("b", "a", "c")
	m.see(Down, Up)
	m.step()
	m.now += settles
	if out := m.step(); len(out.Probes) != 1 {
		t.Fatalf("b is down: %+v", out)
	}
	m.found(Found{})
	m.see(Holding, Up)
	if out := m.step(); out.Owners[0].Owner != "b" || len(out.Claims) > 0 {
		t.Errorf("b may answer: %+v", out)
	}
}

func TestAnHeirIsProbedSoon(t *testing.T) {
	for name, change := range map[string]func(*member){
		"b is gone":                 func(m *member) { m.see(Down, Up) },
		"the controller moves it":   func(m *member) { m.vip.Homes = []string{"c", "b", "a"} },
		"its endpoint is c's alone": func(m *member) { m.vip.Local, m.vip.At = true, []string{"c"} },
	} {
		m := newFollower("b", "c", "a")
		change(m)
		if out := m.step(); out.Owners[0].Owner != "c" || out.Next != verifiesAgain {
			t.Errorf("%s: %+v", name, out)
		}
		m.now += verifiesAgain
		if out := m.step(); len(out.Probes) != 1 {
			t.Errorf("%s, and c was not heard: %+v", name, out)
		}
	}
}

func TestAnHeirThatWasHeardAndWhoseAgentIsAwayKeepsAVIP(t *testing.T) {
	m := newFollower("b", "c", "a")
	m.vip.Homes = []string{"c", "b", "a"}
	m.step()
	m.heard("c")
	m.see(Up, Holding)
	if out := m.step(); out.Owners[0].Owner != "c" || len(out.Claims) > 0 {
		t.Errorf("c may answer: %+v", out)
	}
}

func TestAMachineThatCannotOwnAVIPIsHeardInVain(t *testing.T) {
	m := newFollower("b", "a", "c")
	m.vip.May = []string{"a", "b"}
	m.step()
	m.heard("c")
	m.see(Holding, Up)
	if out := m.step(); out.Owners[0].Owner != "b" || len(out.Claims) > 0 {
		t.Errorf("b may answer: %+v", out)
	}
}

func TestTheFirstHomeProbesTheIncumbentOnceInAWhile(t *testing.T) {
	m := newFollower("a", "b", "c")
	m.found(Found{Machine: "b"})
	m.step()
	m.now += verifies
	if out := m.step(); len(out.Probes) != 1 || out.Next != verifies {
		t.Fatalf("b is to be probed: %+v", out)
	}
	m.found(Found{Machine: "b"})
	if out := m.step(); len(out.Probes) > 0 || out.Next != verifies {
		t.Errorf("b answers: %+v", out)
	}
}

func TestAMachineThatIsToSucceedAnotherDoesSoThoughItHearsIt(t *testing.T) {
	m := newFollower("b", "a", "c")
	see := func(others Standing) {
		m.see(Up, others)
		m.seg.Machines = append(m.seg.Machines, Neighbor{"d", true, others}, Neighbor{"e", true, others})
	}
	m.seg.Witness = WitnessAnswers
	see(Down)
	m.vip.Homes = []string{"a", "b", "c"}
	if out := m.step(); out.Quorum != Careful || len(out.Claims) > 0 || len(out.Probes) != 1 {
		t.Fatalf("without a majority it is to probe: %+v", out)
	}
	m.heard("b")
	see(Up)
	if out := m.step(); len(out.Claims) != 1 {
		t.Errorf("the controller moves it: %+v", out)
	}
}

func TestAMachineThatYieldedDoesNotSucceedOneThatItOnlyHeard(t *testing.T) {
	m := newOwner(t)
	m.vip.Homes = []string{"b", "a", "c"}
	m.step()
	m.heard("b")
	m.see(Down, Up)
	if out := m.step(); len(out.Claims) > 0 || len(out.Probes) != 1 {
		t.Errorf("another one may answer: %+v", out)
	}
}

func TestAMachineThatIsToSucceedAnotherDoesSoWhenItHasAMajority(t *testing.T) {
	m := newFollower("b", "a", "c")
	m.seg.Witness = WitnessAnswers
	m.see(Down, Down)
	if out := m.step(); out.Quorum != Careful || len(out.Claims) > 0 || len(out.Probes) != 1 {
		t.Fatalf("without a majority it is to probe: %+v", out)
	}
	m.see(Down, Up)
	if out := m.step(); len(out.Claims) != 1 {
		t.Errorf("b is gone: %+v", out)
	}
}

// Another one may have followed it meanwhile.
func TestAMachineThatStoodStillSucceedsNobodyWithoutAProbe(t *testing.T) {
	m := newFollower("b", "a", "c")
	m.seg.Witness = WitnessAnswers
	m.see(Down, Down)
	if out := m.step(); len(out.Claims) > 0 || len(out.Probes) != 1 {
		t.Fatalf("without a majority it is to probe: %+v", out)
	}
	m.now += settles
	m.seg.Resumed = m.now
	m.see(Down, Up)
	if out := m.step(); len(out.Claims) > 0 {
		t.Errorf("c may answer: %+v", out)
	}
	m.found(Found{Machine: "c"})
	if out := m.step(); len(out.Claims) > 0 || out.Owners[0].Owner != "c" {
		t.Errorf("c answers: %+v", out)
	}
}

func TestAMachineThatStoodStillSucceedsNobodyThoughTheVIPWasMovedToIt(t *testing.T) {
	m := newFollower("b", "a", "c")
	m.now += settles
	m.seg.Resumed = m.now
	m.vip.Homes = []string{"a", "b", "c"}
	if out := m.step(); len(out.Claims) > 0 {
		t.Errorf("c may have taken it from b: %+v", out)
	}
	m.found(Found{Machine: "c"})
	if out := m.step(); len(out.Claims) > 0 || out.Owners[0].Owner != "c" {
		t.Errorf("c answers: %+v", out)
	}
}
