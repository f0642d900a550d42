package agent

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
)

func TestALinkThatComesBackBeginsAnew(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own := netip.MustParseAddr("192.168.1.200")
	plan := lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	f.until(t, own)
	l.set(linkPlans{machine: "w1"})
	waitFor(t, "no link", func() bool { return len(l.reached()) == 0 && !f.isMeshed() })
	f.mu.Lock()
	f.owners[own] = netip.MustParseAddr("192.168.1.3")
	f.mu.Unlock()
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	waitFor(t, "the link is back", func() bool { return len(l.reached()) == 1 })
	waitFor(t, "it knows who has the VIP meanwhile", func() bool {
		if r := l.reached()[0]; len(r.claims) > 0 {
			t.Fatalf("it takes back what another has: %+v", r.step)
		} else {
			return r.step.Owners[0].Owner == "w3"
		}
		return false
	})
}

func TestWhatTheProcessBeforeAnsweredForCountsOnceAlone(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Unheard, advertise.Unheard
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f, vip)
	plan := lanPlan(map[string][]string{"192.168.1.200": {"w2"}})
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	f.until(t, vip)
	l.set(linkPlans{machine: "w1"})
	waitFor(t, "no link", func() bool { return len(l.reached()) == 0 })
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	waitFor(t, "the link is back", func() bool { return len(l.reached()) == 1 })
	if r := l.reached()[0]; len(r.step.Probes) > 0 || len(r.claims) > 0 {
		t.Errorf("before it knows the others it takes back what it had: %+v", r.step)
	}
}

func TestWhatFailsOnALinkIsTriedAgainAndToldOnce(t *testing.T) {
	for what, change := range map[string]func(*fakeLAN){
		"cannot assign requested address": func(f *fakeLAN) { f.refusals = 3 },
		"too many open files":             func(f *fakeLAN) { f.failures = 3 },
	} {
		t.Run(what, func(t *testing.T) { failsOnALink(t, what, change) })
	}
}

func failsOnALink(t *testing.T, what string, change func(*fakeLAN)) {
	var told bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&told, nil)))
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	change(f)
	l := startLinks(t, f)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(nil)}})
	waitFor(t, "it is tried until it works", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.refusals == 0 && f.failures == 0
	})
	if err := l.leave(t.Context(), 0); err != nil { // from now on nothing is logged
		t.Fatal(err)
	}
	if n := strings.Count(told.String(), what); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, told.String())
	}
}

func TestNothingIsLookedForOnALinkBeforeTheWireHasIt(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Unheard, advertise.Unheard
	f.probed = make(chan struct{}, 1)
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f, vip)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	f.until(t, vip)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.early > 0 {
		t.Error("a probe found no link, and what the process before answered for waits until it is repeated")
	}
}

// A process that was stopped while it looked knows nothing of what happened meanwhile.
func TestAProbeThatTookTooLongCountsForNothing(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	f.hold = make(chan struct{})
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	waitFor(t, "it looks", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.probes == 1
	})
	began := uptime.Now()
	waitFor(t, "the probe is too old", func() bool { return uptime.Now()-began > probeCounts })
	close(f.hold)
	f.until(t, vip)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.probes < 2 {
		t.Error("it answers for what it has seen long ago that nobody has")
	}
}
