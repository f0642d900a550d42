package advertise

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
)

func TestAVIPThatNobodyServesIsRefusedForThatWithoutAMajorityToo(t *testing.T) {
	m := newMember("a", "b", "c")
	m.step()
	m.see(Down, Down)
	for served, want := range map[bool]lb.Reason{true: lb.NoMajority, false: lb.NoEndpoint} {
		m.vip.Served = served
		if out := m.step(); out.Quorum != NoQuorum || out.Owners[0].Reason != want {
			t.Errorf("served %v: %+v", served, out)
		}
	}
}

func TestAMachineThatBeginsWithoutAMajorityNamesNoOwner(t *testing.T) {
	m := newMember("b", "a", "c")
	m.seg.Machines = append(m.seg.Machines, Neighbor{"d", true, Unheard}, Neighbor{"e", true, Unheard})
	m.see(Up, Unheard)
	m.seg.Machines = append(m.seg.Machines, Neighbor{"d", true, Unheard}, Neighbor{"e", true, Unheard})
	if out := m.step(); out.Owners[0].Owner != "" || out.Owners[0].Reason != lb.NoMajority {
		t.Errorf("two of five are there: %+v", out)
	}
}

func TestAMachineProbesNothingUntilItKnowsTheOthers(t *testing.T) {
	m := newMember("a", "b", "c")
	m.see(Up, Unheard)
	if out := m.step(); len(out.Probes)+len(out.Claims) > 0 || out.Owners[0].Reason != lb.NoMajority {
		t.Errorf("c may still be heard: %+v", out)
	}
	m.see(Up, Up)
	if out := m.step(); len(out.Probes) != 1 {
		t.Errorf("all are heard, and it does not probe: %+v", out)
	}
}

func TestAnAgentThatBeginsProbesWhatItRemembersUntilItKnowsTheOthers(t *testing.T) {
	m := newMember("a", "b", "c")
	m.Succession = NewSuccession([]netip.Addr{m.vip.VIP})
	m.see(Up, Unheard)
	m.step()
	m.found(Found{})
	if out := m.step(); len(out.Claims) != 1 || len(out.Probes) > 0 {
		t.Fatalf("nobody else answers: %+v", out)
	}
	m.now += careful
	if out := m.step(); len(out.Claims) != 1 || len(out.Probes) != 1 {
		t.Errorf("c may claim it: %+v", out)
	}
	m.now += trust - careful
	if out := m.step(); len(out.Claims) > 0 {
		t.Errorf("no probe has ended since: %+v", out)
	}
}

func TestWhatAnAgentRemembersItReleasesWithoutAMajority(t *testing.T) {
	m := newMember("a", "b", "c")
	m.Succession = NewSuccession([]netip.Addr{m.vip.VIP})
	m.step()
	m.found(Found{})
	if out := m.step(); len(out.Claims) != 1 {
		t.Fatalf("nobody else answers: %+v", out)
	}
	m.see(Down, Down)
	if out := m.step(); len(out.Claims) > 0 || out.Owners[0].Reason != lb.NoMajority {
		t.Errorf("it is cut off: %+v", out)
	}
}

// It may have ended before, and another one may have followed it.
func TestAMachineThatWasOnlyHeardIsNotSucceededWithoutAProbe(t *testing.T) {
	for name, change := range map[string]func(*member){
		"it is gone":           func(m *member) { m.see(Down, Up) },
		"it has no endpoint":   func(m *member) { m.vip.Local, m.vip.At = true, []string{"a"} },
		"it is pinned to this": func(m *member) { m.vip.Homes, m.vip.Pinned = []string{"a", "b", "c"}, true },
	} {
		m := newMember("b", "a", "c")
		m.step()
		m.now += settles
		m.step()
		m.heard("b")
		change(m)
		takes := m.vip.Pinned
		if out := m.step(); (len(out.Claims) == 1) != takes || (len(out.Probes) == 0) != takes {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestAnOwnerProbesNothingUnlessItInsists(t *testing.T) {
	m := newOwner(t)
	for _, insists := range []bool{false, true} {
		m.now += verifies
		if insists {
			m.heard("c")
		}
		if out := m.step(); len(out.Claims) != 1 || (len(out.Probes) == 1) != insists {
			t.Errorf("insists %v: %+v", insists, out)
		}
	}
}

// careful has an owner be one without a majority, which has just probed.
func (m *member) careful(t *testing.T) {
	t.Helper()
	m.seg.Witness = WitnessAnswers
	m.see(Down, Down)
	m.now += trust
	m.step()
	m.found(Found{})
	if out := m.step(); out.Quorum != Careful || len(out.Claims) != 1 || out.Next != careful {
		t.Fatalf("nobody else answers: %+v", out)
	}
}

func TestACarefulOwnerProbesOnceInAWhileThoughItInsists(t *testing.T) {
	m := newOwner(t)
	m.careful(t)
	m.heard("c")
	if out := m.step(); len(out.Claims) != 1 || len(out.Probes) > 0 {
		t.Errorf("it has just probed: %+v", out)
	}
	m.now += careful
	if out := m.step(); len(out.Claims) != 1 || len(out.Probes) != 1 {
		t.Errorf("it is to probe again: %+v", out)
	}
}

func TestAnOwnerThatInsistsAnswersOnWhileItProbesOnceMore(t *testing.T) {
	for _, insists := range []bool{false, true} {
		m := newOwner(t)
		m.careful(t)
		m.now += trust - time.Millisecond
		m.see(Up, Up)
		m.step()
		if insists {
			m.heard("c")
		}
		m.now += time.Millisecond
		if out := m.step(); out.Quorum != Majority || (len(out.Claims) == 1) != insists {
			t.Errorf("insists %v: %+v", insists, out)
		}
	}
}

func TestAnOwnerInsistsUntilAProbeFindsNobody(t *testing.T) {
	m := newOwner(t)
	m.heard("c")
	for _, lasts := range []bool{true, false} {
		if out := m.step(); len(out.Probes) != 1 {
			t.Fatalf("it insists: %+v", out)
		}
		if !lasts {
			m.now += yields
		}
		m.found(Found{})
		if out := m.step(); len(out.Claims) != 1 || (len(out.Probes) == 1) != lasts {
			t.Fatalf("c was heard a moment ago %v: %+v", lasts, out)
		}
		m.found(Found{})
	}
}

// A probe that is running began before this machine saw the others again.
func TestAnOwnerThatSeesTheOthersAgainProbesOnceMore(t *testing.T) {
	for _, running := range []bool{false, true} {
		m := newOwner(t)
		m.careful(t)
		if running {
			m.now += careful
			m.step()
		}
		m.see(Up, Up)
		if out := m.step(); len(out.Claims) != 1 || (len(out.Probes) == 0) != running {
			t.Fatalf("a probe is running %v: %+v", running, out)
		}
		m.found(Found{})
		if out := m.step(); len(out.Claims) != 1 || (len(out.Probes) == 1) != running {
			t.Fatalf("a probe was running %v: %+v", running, out)
		}
		m.found(Found{})
		m.now += verifies
		if out := m.step(); len(out.Claims) != 1 || len(out.Probes) > 0 {
			t.Errorf("nobody else answers: %+v", out)
		}
	}
}
