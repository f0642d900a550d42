package link

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wait"
)

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait.True(t, 10*time.Second, time.Millisecond, what, func() (bool, string) { return ok(), "it is not so" })
}

func startLinks(t *testing.T, f *agenttest.LAN, remembered ...netip.Addr) *Links {
	l := NewOf(slog.Default(), agenttest.Wire{LAN: f}, agenttest.Mesh{LAN: f}, func() {})
	l.remembered = remembered
	beginLinks(t, l)
	return l
}

func beginLinks(t *testing.T, l *Links) {
	l.Begin(t.Context())
	t.Cleanup(func() { _ = l.Leave(context.Background(), 0) })
}

func TestAMachineAnswersForWhatItOwnsAndFollowsOneThatIsGone(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own, other := netip.MustParseAddr("192.168.1.200"), netip.MustParseAddr("192.168.1.201")
	plan := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}, "192.168.1.201": {"w2", "w1", "w3"}})
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	f.Until(t, own)
	if r := l.Refusals(); len(r) != 1 || r[0].VIP != other || r[0].Reason != lb.NotOwner {
		t.Errorf("refusals %v", r)
	}
	probes := f.Probes
	f.SetStanding("w2", advertise.Down)
	f.Until(t, own, other)
	if f.Probes != probes {
		t.Error("it looked on the wire first when it followed a machine that is gone")
	}
	f.SetStanding("w3", advertise.Down)
	f.SetStanding("w2", advertise.Up)
	f.Until(t, own, other)
}

// The first home of a VIP that another machine answers for looks every five seconds whether that one still does. Over IPv6 all hosts
// of the link hear the answer to who does not say who asks (RFC 4861, section 7.2.4).
func TestWhoLooksAgainAndAgainSaysWhoAsks(t *testing.T) {
	t.Parallel()
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	vip := netip.MustParseAddr("192.168.1.200")
	plan := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})
	w2, _ := plan.Link.Machine("w2")
	f.Owners[vip] = w2.Addr
	l := startLinks(t, f)
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	waitFor(t, "it looks whether the owner still answers", func() bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return f.Asked > 0
	})
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if before := f.Probes - f.Asked; before != 1 {
		t.Errorf("it looked %d times without a word of who asks, want once, before it knew who has the VIP", before)
	}
}

func TestAMachineThatIsDrainedFallsSilentAndTellsTheOthers(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own := netip.MustParseAddr("192.168.1.200")
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	f.Until(t, own)
	silent := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}})
	silent.Silent, silent.Leaving = true, lb.MachineDrained
	l.Set(Plans{"w1", []advertise.LinkPlan{silent}})
	f.Until(t)
	if !f.IsLeaving() {
		t.Error("the others are not told that the machine leaves")
	}
}

func TestWhatAnotherMachineAnswersForIsLeftToIt(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	vip := netip.MustParseAddr("192.168.1.200")
	f.Owners[vip] = netip.MustParseAddr("192.168.1.3")
	l := startLinks(t, f)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})}})
	deadline := time.Now().Add(10 * time.Second)
	for {
		if r := l.Reached(); len(r) == 1 && len(r[0].step.Owners) == 1 && r[0].step.Owners[0].Owner == "w3" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("reached %+v", r)
		}
		time.Sleep(time.Millisecond)
	}
	if c := f.Claims(); len(c) != 0 {
		t.Fatalf("it answers for %v", c)
	}
}

func TestAnAgentThatFollowsAnotherTakesBackWhatThatAnsweredForBeforeItKnowsTheOthers(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Unheard, advertise.Unheard
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f, vip)
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w2"}, "192.168.1.201": {"w1"}})}})
	f.Until(t, vip)
}

func TestAVIPIsNotAnsweredForBeforeItsRulesAreThere(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip := netip.MustParseAddr("192.168.1.200")
	plan := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}, "192.168.1.201": {"w1"}})
	plan.Pending = []netip.Addr{vip}
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	f.Until(t, netip.MustParseAddr("192.168.1.201"))
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}, "192.168.1.201": {"w1"}})}})
	f.Until(t, vip, netip.MustParseAddr("192.168.1.201"))
}

func TestTheNextOwnerThatIsHeardHasAMachineFallSilent(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip := netip.MustParseAddr("192.168.1.200")
	plan := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	f.Until(t, vip)
	plan.Leaving = lb.ProxyUnhealthy
	l.Set(Plans{"w1", []advertise.LinkPlan{plan}})
	f.Mu.Lock()
	f.Heard[vip] = onlink.Heard{Machine: netip.MustParseAddr("192.168.1.2"), At: uptime.Now()}
	f.Mu.Unlock()
	f.WireChanged <- struct{}{}
	f.Until(t)
}

func TestTheMachineThatWouldFollowFindsOnTheWireWhoHasAVIP(t *testing.T) {
	f := agenttest.NewLAN()
	f.Standing["w2"], f.Standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip, own := netip.MustParseAddr("192.168.1.201"), netip.MustParseAddr("192.168.1.200")
	f.Owners[vip] = netip.MustParseAddr("192.168.1.2")
	l.Set(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}, "192.168.1.201": {"w2", "w1", "w3"}})}})
	f.Until(t, own)
	for _, c := range []struct {
		answers string
		reason  lb.Reason
		detail  string
	}{{"192.168.1.2", "", ""}, {"", lb.NotAnsweredOnWire, "w2"}, {"192.168.1.3", lb.AnsweredByOther, "w3"}, {"192.168.1.200", lb.AddressConflict, "00:00:00:00:00:c8"}} {
		f.Mu.Lock()
		delete(f.Owners, vip)
		if c.answers != "" {
			f.Owners[vip] = netip.MustParseAddr(c.answers)
		}
		f.Mu.Unlock()
		wrong := l.findWrong(t.Context())
		if got := wrong[vip]; got.Reason != c.reason || got.Detail != c.detail || len(wrong) > 1 {
			t.Errorf("where %q answers: %v", c.answers, wrong)
		}
	}
}

// A host that had the address first, as one with a lease of that address has.
func TestAHostThatHasAVIPBeforeAnybodyAnswersForItIsNamed(t *testing.T) {
	l := NewOf(slog.Default(), agenttest.Wire{LAN: agenttest.NewLAN()}, agenttest.Mesh{LAN: agenttest.NewLAN()}, func() {})
	vip := netip.MustParseAddr("192.168.1.200")
	l.take(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	plan := func(served bool) {
		p := agenttest.LANPlan(map[string][]string{"192.168.1.200": {"w1"}})
		p.VIPs[0].Served = served
		l.take(Plans{"w1", []advertise.LinkPlan{p}})
	}
	found := func(f advertise.Found, host onlink.MAC) []lb.LinkProblem {
		l.onFound(found{subnet: agenttest.LANSubnet, vip: vip, began: uptime.Now(), host: host, Found: f})
		l.decide(t.Context())
		return l.Problems()
	}
	l.decide(t.Context())
	host := onlink.MAC{5: 200}
	named := []lb.LinkProblem{{On: vip.String(), Reason: lb.AddressConflict, Detail: host.String()}}
	for _, step := range []struct {
		name  string
		found advertise.Found
		want  []lb.LinkProblem
	}{
		{"it answers", advertise.Found{Stranger: true}, named},
		{"nothing could be found out", advertise.Found{Failed: true}, named},
		{"it is gone", advertise.Found{}, nil},
	} {
		if got := found(step.found, host); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
		conflict := ""
		if step.want != nil {
			conflict = host.String()
		}
		if got := l.Status()[0].VIPs[0].Conflict; got != conflict {
			t.Errorf("%s: in status %q, want %q", step.name, got, conflict)
		}
	}
	found(advertise.Found{Stranger: true}, host)
	plan(false) // nobody looks for what has no endpoint
	l.decide(t.Context())
	if got := l.Problems(); len(got) > 0 {
		t.Errorf("without an endpoint: %v", got)
	}
	plan(true)
	found(advertise.Found{Stranger: true}, host)
	l.take(Plans{"w1", []advertise.LinkPlan{agenttest.LANPlan(nil)}})
	if len(l.strangers) > 0 {
		t.Errorf("of a VIP that is gone: %v", l.strangers)
	}
}
