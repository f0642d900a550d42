package link

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/uptime"
)

func TestALinkThatComesBackBeginsAnew(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own := netip.MustParseAddr("192.168.1.200")
	plan := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	f.Until(t, own)
	l.Set(Plans{Machine: "w1"})
	waitFor(t, "no link", func() bool { return len(l.Reached()) == 0 && !f.IsMeshed() })
	f.Mu.Lock()
	f.Owners[own] = netip.MustParseAddr("192.168.1.3")
	f.Mu.Unlock()
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	waitFor(t, "the link is back", func() bool { return len(l.Reached()) == 1 })
	waitFor(t, "it knows who has the VIP meanwhile", func() bool {
		if r := l.Reached()[0]; len(r.claims) > 0 {
			t.Fatalf("it takes back what another has: %+v", r.step)
		} else {
			return r.step.Owners[0].Owner == "w3"
		}
		return false
	})
}

func TestWhatTheProcessBeforeAnsweredForCountsOnceAlone(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Unheard, advertise.Unheard
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f, vip)
	plan := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w2"}})
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	f.Until(t, vip)
	l.Set(Plans{Machine: "w1"})
	waitFor(t, "no link", func() bool { return len(l.Reached()) == 0 })
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	waitFor(t, "the link is back", func() bool { return len(l.Reached()) == 1 })
	if r := l.Reached()[0]; len(r.step.Probes) > 0 || len(r.claims) > 0 {
		t.Errorf("before it knows the others it takes back what it had: %+v", r.step)
	}
}

func TestWhatFailsOnALinkIsTriedAgainAndToldOnce(t *testing.T) {
	for what, change := range map[string]func(*agenttest.LAN){
		"cannot assign requested address": func(f *agenttest.LAN) { f.Refusals = 3 },
		"too many open files":             func(f *agenttest.LAN) { f.Failures = 3 },
	} {
		t.Run(what, func(t *testing.T) { failsOnALink(t, what, change) })
	}
}

func failsOnALink(t *testing.T, what string, change func(*agenttest.LAN)) {
	var told bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&told, nil)))
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	change(f)
	l := startLinks(t, f)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(nil)}})
	waitFor(t, "it is tried until it works", func() bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return f.Refusals == 0 && f.Failures == 0
	})
	if err := l.Leave(t.Context(), 0); err != nil { // from now on nothing is logged
		t.Fatal(err)
	}
	if n := strings.Count(told.String(), what); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, told.String())
	}
}

func TestNothingIsLookedForOnALinkBeforeTheWireHasIt(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Unheard, advertise.Unheard
	f.Probed = make(chan struct{}, 1)
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f, vip)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	f.Until(t, vip)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Early > 0 {
		t.Error("a probe found no link, and what the process before answered for waits until it is repeated")
	}
}

// A process that was stopped while it looked knows nothing of what happened meanwhile.
func TestAProbeThatTookTooLongCountsForNothing(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	f.Hold = make(chan struct{})
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	waitFor(t, "it looks", func() bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return f.Probes == 1
	})
	began := uptime.Now()
	waitFor(t, "the probe is too old", func() bool { return uptime.Now()-began > probeCounts })
	close(f.Hold)
	f.Until(t, vip)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Probes < 2 {
		t.Error("it answers for what it has seen long ago that nobody has")
	}
}
