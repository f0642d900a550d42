package link

import (
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
)

// Nobody answers while an agent is restarted, and that is as planned.
func TestAnAuditAsksNoAnswerOfAMachineWhoseAgentIsAway(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip := netip.MustParseAddr("192.168.1.201")
	f.Owners[vip] = netip.MustParseAddr("192.168.1.2")
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.201": {"w2", "w1", "w3"}})}})
	hasStanding := func(s advertise.Standing) func() bool {
		return func() bool { r := l.Reached(); return len(r) == 1 && r[0].mesh.Standing("w2") == s }
	}
	waitFor(t, "w2 is up", hasStanding(advertise.Up))
	f.SetStanding("w2", advertise.Holding)
	waitFor(t, "w2 is away", hasStanding(advertise.Holding))
	if o := l.Reached()[0].step.Owners[0]; o.Owner != "w2" || o.Next != "w1" {
		t.Fatalf("it audits nothing: %+v", o)
	}
	for answers, want := range map[string]lb.Reason{"": "", "192.168.1.200": lb.AddressConflict, "192.168.1.3": lb.AnsweredByOther} {
		f.Mu.Lock()
		delete(f.Owners, vip)
		if answers != "" {
			f.Owners[vip] = netip.MustParseAddr(answers)
		}
		f.Mu.Unlock()
		if got := l.findWrong(t.Context())[vip].Reason; got != want {
			t.Errorf("where %q answers: %q, want %q", answers, got, want)
		}
	}
}

func TestAnAuditDoesNotWaitForOneVIPBeforeItAsksForTheNext(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	homes := map[string][]string{}
	for i := range auditsAtOnce {
		vip := netip.AddrFrom4([4]byte{192, 168, 1, byte(201 + i)})
		homes[vip.String()], f.Owners[vip] = []string{"w2", "w1", "w3"}, netip.MustParseAddr("192.168.1.2")
	}
	l := startLinks(t, f)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(homes)}})
	waitFor(t, "w2 answers for all", func() bool {
		r := l.Reached()
		return len(r) == 1 && len(r[0].step.Owners) == auditsAtOnce && !slices.ContainsFunc(r[0].step.Owners, func(o advertise.Owned) bool { return o.Auditor != "w1" })
	})
	f.Mu.Lock()
	f.Probes, f.Hold = 0, make(chan struct{})
	f.Mu.Unlock()
	wrong := make(chan int)
	go func() { wrong <- len(l.findWrong(t.Context())) }()
	waitFor(t, "all are asked about while one is not answered", func() bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return f.Probes == auditsAtOnce
	})
	close(f.Hold)
	if n := <-wrong; n > 0 {
		t.Errorf("%d are wrong", n)
	}
}
