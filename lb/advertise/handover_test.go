package advertise

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
)

// member is a machine of a segment with one VIP, and its clock.
type member struct {
	*Succession
	now time.Duration
	seg Segment
	vip LinkVIP
}

// newMember returns machine a of a, b and c, all of which are up.
func newMember(homes ...string) *member {
	return &member{
		NewSuccession(nil), time.Hour,
		Segment{Self: "a", Machines: []Neighbor{{"a", true, Up}, {"b", true, Up}, {"c", true, Up}}},
		LinkVIP{VIP: netip.MustParseAddr("192.0.2.1"), Homes: homes, Served: true},
	}
}

// newOwner returns such a machine, which owns the VIP.
func newOwner(t *testing.T) *member {
	m := newMember("a", "b", "c")
	m.step()
	m.found(Found{})
	if out := m.step(); len(out.Claims) != 1 {
		t.Fatalf("nobody else answers, and it does not: %+v", out)
	}
	return m
}

func (m *member) step() Step         { return m.Step(m.now, m.seg, []LinkVIP{m.vip}) }
func (m *member) found(f Found)      { m.Probed(m.now, m.vip.VIP, f) }
func (m *member) heard(other string) { m.Heard(m.now, m.vip.VIP, other) }

// see has the machine know of others by turns: of b and c.
func (m *member) see(b, c Standing) {
	m.seg.Machines = []Neighbor{m.seg.Machines[0], {"b", true, b}, {"c", true, c}}
}

// drain has the machine leave, and answer on until another one does.
func (m *member) drain() {
	m.seg.Lingers, m.seg.Machines[0] = true, Neighbor{"a", false, Leaving}
}

func TestAMachineThatBeginsLeavesAVIPToAHomeWhoseAgentIsAway(t *testing.T) {
	m := newMember("b", "a", "c")
	m.see(Holding, Up)
	if out := m.step(); out.Owners[0].Owner != "b" {
		t.Errorf("b may answer: %+v", out)
	}
}

func TestAVIPIsNewUntilAMachineAnswersForIt(t *testing.T) {
	m := newMember("b", "a", "c")
	vip := m.vip
	m.Step(m.now, m.seg, nil)
	m.now += settles
	m.Step(m.now, m.seg, nil)
	m.step()
	m.heard("b")
	m.step()
	m.see(Holding, Up)
	if out := m.step(); out.Owners[0].Owner != "b" || len(out.Claims) > 0 {
		t.Errorf("b had %v when its agent went away: %+v", vip.VIP, out)
	}
}

func TestAMachineThatIsToSucceedAnotherLeavesItTheVIPWhenItsKernelAnswers(t *testing.T) {
	m := newMember("b", "a", "c")
	m.seg.Witness = WitnessAnswers
	m.step()
	m.see(Down, Down)
	if out := m.step(); len(out.Probes) != 1 || len(out.Claims) > 0 {
		t.Fatalf("without a majority it is to probe: %+v", out)
	}
	m.see(Holding, Down)
	if out := m.step(); out.Owners[0].Owner != "b" || len(out.Claims) > 0 {
		t.Errorf("b's kernel answers: %+v", out)
	}
}

func TestADrainedMachineTakesNoVIPThatItDidNotHave(t *testing.T) {
	m := newMember("b", "a", "c")
	m.step()
	m.heard("b")
	m.step()
	m.drain()
	m.see(Down, Leaving)
	for range 2 {
		if out := m.step(); len(out.Claims)+len(out.Probes) > 0 || out.Owners[0].Reason != lb.MachineNotActive {
			t.Fatalf("nobody follows b: %+v", out)
		}
		m.found(Found{})
	}
}

func TestADrainedMachineWithoutAnEndpointAnswersForNothing(t *testing.T) {
	m := newOwner(t)
	m.drain()
	m.see(Leaving, Leaving)
	if out := m.step(); len(out.Claims) != 1 {
		t.Fatalf("nobody follows it: %+v", out)
	}
	m.vip.Local, m.vip.At = true, []string{"b"}
	if out := m.step(); len(out.Claims) > 0 || out.Owners[0].Reason != lb.MachineNotActive {
		t.Errorf("its endpoint is gone: %+v", out)
	}
}

func TestAMachineThatMayNotServeDoesNotAnswerOnUnlessItIsDrained(t *testing.T) {
	m := newOwner(t)
	m.seg.Machines[0].Standing = Leaving
	m.see(Leaving, Leaving)
	if out := m.step(); len(out.Claims) > 0 || out.Owners[0].Reason != lb.MachineNotActive {
		t.Errorf("nobody may serve: %+v", out)
	}
}

func TestAnAgentThatBeginsWhileItsMachineIsDrainedAnswersOn(t *testing.T) {
	m := newMember("a", "b", "c")
	m.Succession = NewSuccession([]netip.Addr{m.vip.VIP})
	m.drain()
	m.see(Leaving, Leaving)
	m.step()
	m.found(Found{})
	if out := m.step(); len(out.Claims) != 1 {
		t.Errorf("the process before answered, and nobody follows it: %+v", out)
	}
}

func TestAMachineThatCanServeYieldsAVIPForAWhileAndTakesItBack(t *testing.T) {
	m := newOwner(t)
	m.vip.Homes = []string{"b", "a", "c"}
	if out := m.step(); out.Next != yields || len(out.Probes) > 0 {
		t.Errorf("b may take it in a moment: %+v", out)
	}
	begun := m.now
	for ; m.now < begun+resigns; m.now += careful {
		if out := m.step(); len(out.Claims) != 1 || out.Owners[0].Owner != "b" {
			t.Fatalf("b has not been heard after %v: %+v", m.now-begun, out)
		}
	}
	if out := m.step(); len(out.Claims) != 1 || out.Owners[0].Owner != "a" {
		t.Errorf("b did not take it: %+v", out)
	}
}

func TestAMachineThatCannotServeYieldsAVIPForAMomentUnlessItIsDrained(t *testing.T) {
	for _, drained := range []bool{false, true} {
		m := newOwner(t)
		m.vip.Local, m.vip.At = true, []string{"b"}
		if drained {
			m.drain()
		}
		begun := m.now
		for ; m.now < begun+2*resigns; m.now += 500 * time.Millisecond {
			out := m.step()
			if want := drained || m.now < begun+yields; (len(out.Claims) == 1) != want || out.Owners[0].Owner != "b" {
				t.Fatalf("drained %v, after %v: %+v", drained, m.now-begun, out)
			}
		}
	}
}

func TestADrainedMachineThatCanServeNeverTakesAVIPBack(t *testing.T) {
	m := newOwner(t)
	m.drain()
	for range 20 {
		if out := m.step(); len(out.Claims) != 1 || out.Owners[0].Owner != "b" {
			t.Fatalf("b has not been heard: %+v", out)
		}
		m.now += careful
	}
}

func TestAMachineThatYieldsProbesAtOnceWhereItHasJustHeardTheOwner(t *testing.T) {
	for _, heard := range []bool{false, true} {
		m := newOwner(t)
		if heard {
			m.heard("b")
		}
		m.now += 1200 * time.Millisecond
		m.vip.Homes = []string{"b", "a", "c"}
		out := m.step()
		if len(out.Claims) != 1 || (len(out.Probes) == 1) != heard || (out.Next == careful) != heard {
			t.Errorf("b was heard %v, before it was to own it: %+v", heard, out)
		}
	}
}

func TestAMachineThatWasCutOffProbesAnOwnerWhoseAgentIsAway(t *testing.T) {
	m := newMember("b", "a", "c")
	m.step()
	m.now += settles
	m.step()
	m.see(Down, Down)
	m.step()
	m.see(Holding, Up)
	if out := m.step(); len(out.Probes) != 1 || out.Owners[0].Owner != "b" {
		t.Errorf("b may have left it to another one: %+v", out)
	}
}

func TestAMachineThatBeginsDoesNotProbeTheOwner(t *testing.T) {
	m := newMember("a", "b", "c")
	m.see(Up, Unheard)
	m.step()
	m.heard("b")
	if out := m.step(); out.Owners[0].Owner != "b" || out.Next != 0 {
		t.Errorf("it does not know c yet: %+v", out)
	}
	m.see(Up, Up)
	if out := m.step(); out.Owners[0].Owner != "b" || out.Next != verifies {
		t.Errorf("it knows all: %+v", out)
	}
}

func TestAMachineThatYieldsProbesOnceInAWhileWhetherTheOwnerAnswers(t *testing.T) {
	m := newOwner(t)
	m.vip.Homes = []string{"b", "a", "c"}
	m.step()
	m.now += yields
	for range 2 {
		if out := m.step(); len(out.Probes) != 1 || out.Next != careful {
			t.Fatalf("b was not heard: %+v", out)
		}
		m.found(Found{})
		if out := m.step(); len(out.Claims) != 1 || len(out.Probes) > 0 {
			t.Fatalf("b does not answer yet: %+v", out)
		}
		m.now += careful
	}
}

func TestAMachineThatStoodStillYieldsAVIPToAnOwnerThatItHears(t *testing.T) {
	m := newOwner(t)
	m.heard("b")
	m.vip.Homes, m.seg.Resumed = []string{"b", "a", "c"}, m.now
	if out := m.step(); len(out.Claims) > 0 || out.Owners[0].Owner != "b" {
		t.Errorf("b answers: %+v", out)
	}
}

func TestAMachineThatComesAndGoesIsToldAgainWhatWasTakenMeanwhile(t *testing.T) {
	m := newFollower("b", "a", "c")
	m.see(Up, Down)
	m.step()
	m.now += careful
	m.vip.May = []string{"a"}
	if out := m.step(); len(out.Claims) != 1 || len(out.Again) > 0 {
		t.Fatalf("b may not serve it: %+v", out)
	}
	m.see(Up, Holding)
	if out := m.step(); len(out.Again) > 0 {
		t.Errorf("c's agent is away: %+v", out)
	}
	for range 3 {
		m.see(Up, Up)
		if out := m.step(); len(out.Again) != 1 {
			t.Errorf("c may not know of it: %+v", out)
		}
		m.now += careful
		m.see(Up, Down)
		m.step()
	}
	m.see(Up, Up)
	m.step()
	m.now += yields
	m.see(Up, Down)
	m.step()
	m.see(Up, Up)
	if out := m.step(); len(out.Again) > 0 {
		t.Errorf("c was up for long enough to hear of it: %+v", out)
	}
}
