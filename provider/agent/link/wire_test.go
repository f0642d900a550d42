package link

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/provider/agent/agenttest"
)

func wireReason(l *Links) lb.Reason {
	if r := l.Reached(); len(r) == 1 {
		return r[0].wire.Reason
	}
	return ""
}

func TestAMachineWhoseWireDoesNotWorkAsksTheOthersToOwnWhatItHas(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own := netip.MustParseAddr("192.168.1.200")
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})}})
	f.Until(t, own)
	f.Deafen(lb.CapabilityMissing)
	waitFor(t, "the others are told", f.IsLeaving)
	f.Mu.Lock()
	f.Heard[own] = onlink.Heard{Machine: netip.MustParseAddr("192.168.1.2"), At: time.Hour * 1e4}
	f.Mu.Unlock()
	f.Until(t)
	if r := l.Refusals(); len(r) != 1 || r[0].Reason != lb.CapabilityMissing {
		t.Errorf("refusals %v", r)
	}
	f.Deafen("")
	waitFor(t, "the others are told that it is back", func() bool { return !f.IsLeaving() })
}

func TestAMachineWhoseWireIsGoneForAMomentLeavesNothing(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := NewOf(slog.Default(), agenttest.Wire{LAN: f}, agenttest.Mesh{LAN: f}, func() {})
	l.wireGrace = time.Hour
	beginLinks(t, l)
	own := netip.MustParseAddr("192.168.1.200")
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})}})
	f.Until(t, own)
	for _, why := range []lb.Reason{lb.NoCarrier, ""} {
		f.Deafen(why)
		waitFor(t, "it knows its wire", func() bool { return wireReason(l) == why })
		if f.IsLeaving() {
			t.Errorf("with %q the others are told that it leaves", why)
		}
		f.Until(t, own)
	}
	if r := l.Reached(); r[0].step.Owners[0].Owner != "w1" {
		t.Errorf("the owner is %+v", r[0].step.Owners)
	}
}
