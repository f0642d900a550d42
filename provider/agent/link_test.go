package agent

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/uptime"
)

// fakeLAN is a wire and the machines on it.
type fakeLAN struct {
	mu         sync.Mutex
	subnet     netip.Prefix
	wire, mesh chan struct{}
	configs    []onlink.Config
	heard      map[netip.Addr]onlink.Heard
	owners     map[netip.Addr]netip.Addr // who answers probes
	standing   map[string]advertise.Standing
	refusals   int  // how often the mesh cannot open a session
	failures   int  // how often the wire cannot be set
	meshed     bool // the mesh has a link
	witness    []netip.Addr
	leaving    bool
	probes     int
	asked      int // of these, those that say who asks
	conflicts  map[netip.Addr]onlink.MAC
	deaf       lb.Reason // why the wire does not work
	early      int       // probes on a link that was not set
	probed     chan struct{}
	hold       chan struct{} // closed: the first probe ends
}

func newFakeLAN() *fakeLAN {
	return &fakeLAN{
		subnet: lanSubnet, wire: make(chan struct{}, 1), mesh: make(chan struct{}, 1), heard: map[netip.Addr]onlink.Heard{},
		owners: map[netip.Addr]netip.Addr{}, standing: map[string]advertise.Standing{},
		conflicts: map[netip.Addr]onlink.MAC{},
	}
}

type fakeWire struct{ *fakeLAN }

func (f fakeWire) Set(_ context.Context, all []onlink.Config) error {
	f.mu.Lock()
	first := f.configs == nil
	f.mu.Unlock()
	if first && f.probed != nil {
		select { // a probe that should come later comes now
		case <-f.probed:
		case <-time.After(100 * time.Millisecond):
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.configs = all
	if f.failures > 0 {
		f.failures--
		return errors.New("too many open files")
	}
	return nil
}

func (f fakeWire) Probe(_ context.Context, _ netip.Prefix, addr netip.Addr, _ int, _ time.Duration) ([]onlink.MAC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probes++
	if f.probes == 1 && f.hold != nil {
		f.mu.Unlock()
		<-f.hold
		f.mu.Lock()
	}
	if f.configs == nil && f.probed != nil {
		f.early++
		f.probed <- struct{}{}
	}
	if f.deaf != "" {
		return nil, onlink.Unavailable{Subnet: f.subnet, Reason: f.deaf}
	}
	if owner, has := f.owners[addr]; has {
		return []onlink.MAC{{5: owner.As4()[3]}}, nil
	}
	return nil, nil
}

func (f fakeWire) Ask(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error) {
	f.mu.Lock()
	f.asked++
	f.mu.Unlock()
	return f.Probe(ctx, subnet, addr, tries, every)
}

func (f fakeWire) AskAll(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error) {
	return f.Probe(ctx, subnet, addr, tries, every)
}

func (f fakeWire) Machine(_ netip.Prefix, mac onlink.MAC) (netip.Addr, bool) {
	return netip.AddrFrom4([4]byte{192, 168, 1, mac[5]}), mac[5] < 100
}

func (f fakeWire) Announce(netip.Prefix, netip.Addr)     {}
func (f fakeWire) AnnounceAnew(netip.Prefix, netip.Addr) {}

func (f fakeWire) State() []onlink.LinkState {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []onlink.LinkState
	for _, c := range f.configs {
		s := onlink.LinkState{Link: c.Link, Reason: f.deaf}
		for vip, h := range f.heard {
			s.Addresses = append(s.Addresses, onlink.AddressState{Addr: vip, Heard: h})
		}
		for vip, mac := range f.conflicts {
			s.Addresses = append(s.Addresses, onlink.AddressState{Addr: vip, Reason: lb.AddressConflict, Conflict: onlink.Conflict{MAC: mac}})
		}
		all = append(all, s)
	}
	return all
}

func (f fakeWire) Changed() <-chan struct{} { return f.wire }

type fakeMesh struct{ *fakeLAN }

func (f fakeMesh) Set(_ context.Context, all []mesh.Config) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meshed, f.witness = len(all) > 0, nil
	if f.meshed {
		f.witness = all[0].Witness
	}
	f.leaving = f.meshed && all[0].Leaving
	if f.refusals > 0 {
		f.refusals--
		return errors.New("cannot assign requested address")
	}
	return nil
}

func (f fakeMesh) Acted([]mesh.LinkState) {}

func (f fakeMesh) State() []mesh.LinkState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := mesh.LinkState{Subnet: f.subnet, Witness: advertise.WitnessAnswers}
	for _, name := range slices.Sorted(maps.Keys(f.standing)) {
		s.Machines = append(s.Machines, mesh.MachineState{Machine: mesh.Machine{Name: name}, Standing: f.standing[name]})
	}
	return []mesh.LinkState{s}
}

func (f fakeMesh) Changed() <-chan struct{} { return f.mesh }

func (f *fakeLAN) set(name string, s advertise.Standing) {
	f.mu.Lock()
	f.standing[name] = s
	f.mu.Unlock()
	f.mesh <- struct{}{}
}

// deafen has the wire not work for a reason; empty: it works again.
func (f *fakeLAN) deafen(why lb.Reason) {
	f.mu.Lock()
	f.deaf = why
	f.mu.Unlock()
	f.wire <- struct{}{}
}

func (f *fakeLAN) isLeaving() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leaving
}

func (f *fakeLAN) isMeshed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.meshed
}

func (f *fakeLAN) claims() []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.configs) == 0 {
		return nil
	}
	return f.configs[0].Claims
}

// until waits for claims.
func (f *fakeLAN) until(t *testing.T, want ...netip.Addr) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !slices.Equal(f.claims(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("it answers for %v, want %v", f.claims(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

var lanSubnet = netip.MustParsePrefix("192.168.1.0/24")

// lanPlan is that of machine w1, of three, for VIPs whose first home each is.
func lanPlan(homes map[string][]string) advertise.LinkPlan {
	p := advertise.LinkPlan{Link: inventory.Link{Subnet: lanSubnet}, Self: netip.MustParseAddr("192.168.1.1")}
	for i, name := range []string{"w1", "w2", "w3"} {
		p.Link.Machines = append(p.Link.Machines, inventory.LinkMachine{Name: name, Addr: netip.AddrFrom4([4]byte{192, 168, 1, byte(i + 1)}), State: inventory.StateActive})
	}
	for addr, h := range homes {
		p.VIPs = append(p.VIPs, advertise.LinkVIP{VIP: netip.MustParseAddr(addr), Homes: h, Served: true})
		p.Offers = append(p.Offers, advertise.Offer{Service: key(addr), VIP: netip.MustParseAddr(addr)})
	}
	slices.SortFunc(p.VIPs, func(a, b advertise.LinkVIP) int { return a.VIP.Compare(b.VIP) })
	slices.SortFunc(p.Offers, advertise.Offer.Compare)
	return p
}

func startLinks(t *testing.T, f *fakeLAN, remembered ...netip.Addr) *links {
	l := newLinksOf(fakeWire{f}, fakeMesh{f}, func() {})
	l.remembered = remembered
	beginLinks(t, l)
	return l
}

func beginLinks(t *testing.T, l *links) {
	l.close = func(context.Context, time.Duration) error { return nil }
	l.begin(t.Context())
	t.Cleanup(func() { _ = l.leave(context.Background(), 0) })
}

func TestAMachineAnswersForWhatItOwnsAndFollowsOneThatIsGone(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own, other := netip.MustParseAddr("192.168.1.200"), netip.MustParseAddr("192.168.1.201")
	plan := lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}, "192.168.1.201": {"w2", "w1", "w3"}})
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	f.until(t, own)
	if r := l.refusals(); len(r) != 1 || r[0].VIP != other || r[0].Reason != lb.NotOwner {
		t.Errorf("refusals %v", r)
	}
	probes := f.probes
	f.set("w2", advertise.Down)
	f.until(t, own, other)
	if f.probes != probes {
		t.Error("it looked on the wire first when it followed a machine that is gone")
	}
	f.set("w3", advertise.Down)
	f.set("w2", advertise.Up)
	f.until(t, own, other)
}

// The first home of a VIP that another machine answers for looks every five seconds whether that one still does. Over IPv6 all hosts
// of the link hear the answer to who does not say who asks (RFC 4861, section 7.2.4).
func TestWhoLooksAgainAndAgainSaysWhoAsks(t *testing.T) {
	t.Parallel()
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	vip := netip.MustParseAddr("192.168.1.200")
	plan := lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})
	w2, _ := plan.Link.Machine("w2")
	f.owners[vip] = w2.Addr
	l := startLinks(t, f)
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	waitFor(t, "it looks whether the owner still answers", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.asked > 0
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.probes - f.asked; before != 1 {
		t.Errorf("it looked %d times without a word of who asks, want once, before it knew who has the VIP", before)
	}
}

func TestAMachineThatIsDrainedFallsSilentAndTellsTheOthers(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	own := netip.MustParseAddr("192.168.1.200")
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	f.until(t, own)
	silent := lanPlan(map[string][]string{"192.168.1.200": {"w1"}})
	silent.Silent, silent.Leaving = true, lb.MachineDrained
	l.set(linkPlans{"w1", []advertise.LinkPlan{silent}})
	f.until(t)
	if !f.isLeaving() {
		t.Error("the others are not told that the machine leaves")
	}
}

func TestWhatAnotherMachineAnswersForIsLeftToIt(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	vip := netip.MustParseAddr("192.168.1.200")
	f.owners[vip] = netip.MustParseAddr("192.168.1.3")
	l := startLinks(t, f)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})}})
	deadline := time.Now().Add(10 * time.Second)
	for {
		if r := l.reached(); len(r) == 1 && len(r[0].step.Owners) == 1 && r[0].step.Owners[0].Owner == "w3" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("reached %+v", r)
		}
		time.Sleep(time.Millisecond)
	}
	if c := f.claims(); len(c) != 0 {
		t.Fatalf("it answers for %v", c)
	}
}

func TestAnAgentThatFollowsAnotherTakesBackWhatThatAnsweredForBeforeItKnowsTheOthers(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Unheard, advertise.Unheard
	vip := netip.MustParseAddr("192.168.1.200")
	l := startLinks(t, f, vip)
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w2"}, "192.168.1.201": {"w1"}})}})
	f.until(t, vip)
}

func TestAVIPIsNotAnsweredForBeforeItsRulesAreThere(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip := netip.MustParseAddr("192.168.1.200")
	plan := lanPlan(map[string][]string{"192.168.1.200": {"w1"}, "192.168.1.201": {"w1"}})
	plan.Pending = []netip.Addr{vip}
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	f.until(t, netip.MustParseAddr("192.168.1.201"))
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1"}, "192.168.1.201": {"w1"}})}})
	f.until(t, vip, netip.MustParseAddr("192.168.1.201"))
}

func TestTheNextOwnerThatIsHeardHasAMachineFallSilent(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip := netip.MustParseAddr("192.168.1.200")
	plan := lanPlan(map[string][]string{"192.168.1.200": {"w1", "w2", "w3"}})
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	f.until(t, vip)
	plan.Leaving = lb.ProxyUnhealthy
	l.set(linkPlans{"w1", []advertise.LinkPlan{plan}})
	f.mu.Lock()
	f.heard[vip] = onlink.Heard{Machine: netip.MustParseAddr("192.168.1.2"), At: uptime.Now()}
	f.mu.Unlock()
	f.wire <- struct{}{}
	f.until(t)
}

func TestTheMachineThatWouldFollowFindsOnTheWireWhoHasAVIP(t *testing.T) {
	f := newFakeLAN()
	f.standing["w2"], f.standing["w3"] = advertise.Up, advertise.Up
	l := startLinks(t, f)
	vip, own := netip.MustParseAddr("192.168.1.201"), netip.MustParseAddr("192.168.1.200")
	f.owners[vip] = netip.MustParseAddr("192.168.1.2")
	l.set(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1"}, "192.168.1.201": {"w2", "w1", "w3"}})}})
	f.until(t, own)
	for _, c := range []struct {
		answers string
		reason  lb.Reason
		detail  string
	}{{"192.168.1.2", "", ""}, {"", lb.NotAnsweredOnWire, "w2"}, {"192.168.1.3", lb.AnsweredByOther, "w3"}, {"192.168.1.200", lb.AddressConflict, "00:00:00:00:00:c8"}} {
		f.mu.Lock()
		delete(f.owners, vip)
		if c.answers != "" {
			f.owners[vip] = netip.MustParseAddr(c.answers)
		}
		f.mu.Unlock()
		wrong := l.findWrong(t.Context())
		if got := wrong[vip]; got.Reason != c.reason || got.Detail != c.detail || len(wrong) > 1 {
			t.Errorf("where %q answers: %v", c.answers, wrong)
		}
	}
}

// A host that had the address first, as one with a lease of that address has.
func TestAHostThatHasAVIPBeforeAnybodyAnswersForItIsNamed(t *testing.T) {
	l := newLinksOf(fakeWire{newFakeLAN()}, fakeMesh{newFakeLAN()}, func() {})
	vip := netip.MustParseAddr("192.168.1.200")
	l.take(linkPlans{"w1", []advertise.LinkPlan{lanPlan(map[string][]string{"192.168.1.200": {"w1"}})}})
	plan := func(served bool) {
		p := lanPlan(map[string][]string{"192.168.1.200": {"w1"}})
		p.VIPs[0].Served = served
		l.take(linkPlans{"w1", []advertise.LinkPlan{p}})
	}
	found := func(f advertise.Found, host onlink.MAC) []lb.LinkProblem {
		l.onFound(found{subnet: lanSubnet, vip: vip, began: uptime.Now(), host: host, Found: f})
		l.decide(t.Context())
		return l.problems()
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
		if got := l.status()[0].VIPs[0].Conflict; got != conflict {
			t.Errorf("%s: in status %q, want %q", step.name, got, conflict)
		}
	}
	found(advertise.Found{Stranger: true}, host)
	plan(false) // nobody looks for what has no endpoint
	l.decide(t.Context())
	if got := l.problems(); len(got) > 0 {
		t.Errorf("without an endpoint: %v", got)
	}
	plan(true)
	found(advertise.Found{Stranger: true}, host)
	l.take(linkPlans{"w1", []advertise.LinkPlan{lanPlan(nil)}})
	if len(l.strangers) > 0 {
		t.Errorf("of a VIP that is gone: %v", l.strangers)
	}
}
