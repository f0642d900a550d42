package agent

import (
	"net/netip"
	"testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Nobody answers while an agent is restarted, and that is as planned.
func TestAnAuditAsksNoAnswerOfAMachineWhoseAgentIsAway(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip := netip.MustParseAddr("192.168.1.201")
	f.owners[vip] = netip.MustParseAddr("192.168.1.2")
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.201": {"w2", "w1", "w3"}})}})
	hasStanding := func(s advertise.Standing) func() bool {
		return func() bool { r := l.reached(); return len(r) == 1 && r[0].mesh.Standing("w2") == s }
	}
	waitFor(t, "w2 is up", hasStanding(advertise.Up))
	f.set("w2", advertise.Holding)
	waitFor(t, "w2 is away", hasStanding(advertise.Holding))
	if o := l.reached()[0].step.Owners[0]; o.Owner != "w2" || o.Next != "w1" {
		t.Fatalf("it audits nothing: %+v", o)
	}
	for answers, want := range map[string]lb.Reason{"": "", "192.168.1.200": lb.AddressConflict, "192.168.1.3": lb.AnsweredByOther} {
		f.mu.Lock()
		delete(f.owners, vip)
		if answers != "" {
			f.owners[vip] = netip.MustParseAddr(answers)
		}
		f.mu.Unlock()
		if got := l.findWrong(t.Context())[vip].Reason; got != want {
			t.Errorf("where %q answers: %q, want %q", answers, got, want)
		}
	}
}
