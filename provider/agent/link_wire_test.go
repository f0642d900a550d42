package agent

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
)

func wireReason(l *links) lb.Reason {
	if r := l.reached(); len(r) == 1 {
		return r[0].wire.Reason
	}
	return ""
}

func TestAMachineWhoseWireDoesNotWorkAsksTheOthersToOwnWhatItHas(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own := netip.MustParseAddr("192.168.1.200")
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})}})
	f.until(t, own)
	f.deafen(lb.CapabilityMissing)
	waitFor(t, "the others are told", f.isLeaving)
	f.mu.Lock()
	f.heard[own] = onlink.Heard{Machine: netip.MustParseAddr("192.168.1.2"), At: time.Hour * 1e4}
	f.mu.Unlock()
	f.until(t)
	if r := l.refusals(); len(r) != 1 || r[0].Reason != lb.CapabilityMissing {
		t.Errorf("refusals %v", r)
	}
	f.deafen("")
	waitFor(t, "the others are told that it is back", func() bool { return !f.isLeaving() })
}

func TestAMachineWhoseWireIsGoneForAMomentLeavesNothing(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := newLinksOf(fakeWire{f}, fakeMesh{f}, func() {})
	l.wireGrace = time.Hour
	beginLinks(t, l)
	own := netip.MustParseAddr("192.168.1.200")
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})}})
	f.until(t, own)
	for _, why := range []lb.Reason{lb.NoCarrier, ""} {
		f.deafen(why)
		waitFor(t, "it knows its wire", func() bool { return wireReason(l) == why })
		if f.isLeaving() {
			t.Errorf("with %q the others are told that it leaves", why)
		}
		f.until(t, own)
	}
	if r := l.reached(); r[0].step.Owners[0].Owner != "w1" {
		t.Errorf("the owner is %+v", r[0].step.Owners)
	}
}
