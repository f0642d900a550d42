package link

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/provider/agent/latest"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wake"
)

const (
	// probeTries and probeEvery are how a VIP is looked for before it is claimed: RFC 5227, section
	// 2.1.1, at the least of its intervals.
	probeTries = 3
	probeEvery = 100 * time.Millisecond
	// probeCounts is for how long a probe counts from when it began. It takes a third of that, and a process
	// that was stopped meanwhile has not heard who answered.
	probeCounts = time.Second
	// retryEvery is how long after something failed on a link it is tried again: the machine's address may not
	// be there yet.
	retryEvery = time.Second
)

// Wire is the responder on links.
type Wire interface {
	Set(context.Context, []onlink.Config) error
	Ask(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error)
	Probe(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error)
	AskAll(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error)
	Machine(subnet netip.Prefix, mac onlink.MAC) (netip.Addr, bool)
	Announce(subnet netip.Prefix, addr netip.Addr)
	AnnounceAnew(subnet netip.Prefix, addr netip.Addr)
	State() []onlink.LinkState
	Changed() <-chan struct{}
}

// Neighbors is the mesh of machines on links: it knows which of them are there.
type Neighbors interface {
	Set(context.Context, []mesh.Config) error
	State() []mesh.LinkState
	Acted(on []mesh.LinkState)
	Changed() <-chan struct{}
}

// Links is the machine's part in answering for VIPs on its subnets. A goroutine of its own decides anew
// whenever a machine comes or goes, so that no pass of the agent holds up a failover.
//
// An agent's pass hands it plans ([Links.Set]) and takes what came of them ([Links.Reached]).
type Links struct {
	log     *slog.Logger
	wire    Wire
	mesh    Neighbors
	changed func() // somebody else answers for something than before
	close   func(ctx context.Context, handOver time.Duration) error
	plans   latest.Value[Plans]
	found   chan found

	stop    context.CancelFunc
	running sync.WaitGroup

	shown     shown
	wireGrace time.Duration // defaultWireGrace

	// Used by the goroutine of run alone.
	self        string // the machine
	now         []advertise.LinkPlan
	remembered  []netip.Addr
	successions map[netip.Prefix]*advertise.Succession
	heard       map[netip.Addr]time.Duration
	strangers   map[netip.Addr]onlink.MAC      // hosts that have VIPs which this machine would answer for
	brokenSince map[netip.Prefix]time.Duration // since when the wire does not work
	meshed      meshed
	wireFailure string
}

// shown is the state of the links that others may read at any time; its lock guards all of it.
type shown struct {
	mu      sync.Mutex
	links   []Reached
	audited map[netip.Addr]lb.LinkProblem // what this machine found on the wire of VIPs that others own
}

// Plans are the plans of a machine.
type Plans struct {
	Machine string
	Links   []advertise.LinkPlan
}

// found is the outcome of a probe.
type found struct {
	subnet netip.Prefix
	vip    netip.Addr
	began  time.Duration // uptime
	host   onlink.MAC    // of the stranger
	advertise.Found
}

// Reached is the outcome of a pass on one link: its plan, the peers and the addresses on the wire.
type Reached struct {
	self   string // the machine
	plan   advertise.LinkPlan
	step   advertise.Step
	claims []netip.Addr // that are answered for, sorted
	// strangers are the hosts that have VIPs which this machine would answer for.
	strangers map[netip.Addr]onlink.MAC
	mesh      mesh.LinkState
	wire      onlink.LinkState
}

// New returns the links of a machine that answers by a responder, and knows the others by a mesh.
func New(log *slog.Logger, w *onlink.Responder, m *mesh.Mesh, changed func()) *Links {
	links := NewOf(log, w, m, changed)
	links.close = func(ctx context.Context, handOver time.Duration) error {
		m.Close(ctx, handOver) // while this machine answers on
		w.Close()
		return nil
	}
	return links
}

// NewOf is New for what else may answer, and know the others.
func NewOf(log *slog.Logger, w Wire, n Neighbors, changed func()) *Links {
	return &Links{
		log: log, wire: w, mesh: n, changed: changed, plans: latest.New[Plans](), found: make(chan found, 16),
		successions: map[netip.Prefix]*advertise.Succession{}, heard: map[netip.Addr]time.Duration{}, strangers: map[netip.Addr]onlink.MAC{},
		wireGrace: defaultWireGrace, brokenSince: map[netip.Prefix]time.Duration{},
		close: func(context.Context, time.Duration) error { return nil },
	}
}

// Remember adopts the VIPs that the process before this one answered for.
func (l *Links) Remember(vips []netip.Addr) { l.remembered = vips }

// Set hands over what is planned. It never waits.
func (l *Links) Set(to Plans) { l.plans.Put(to) }

// Reached returns the state that each link reached, sorted by subnet.
func (l *Links) Reached() []Reached {
	if l == nil {
		return nil
	}
	l.shown.mu.Lock()
	defer l.shown.mu.Unlock()
	return l.shown.links
}

// HandOver is how long other machines wait for the agent that follows this one: as routers do by
// default.
const HandOver = time.Minute

// Begin starts the goroutine that decides.
func (l *Links) Begin(ctx context.Context) {
	ctx, l.stop = context.WithCancel(ctx)
	l.running.Go(func() { l.run(ctx) })
	l.running.Go(func() { l.audit(ctx) })
}

// Leave falls silent. With a time above 0 the other machines are asked to wait for so long for the process
// that follows.
func (l *Links) Leave(ctx context.Context, handOver time.Duration) error {
	if l == nil {
		return nil
	}
	l.stop()
	l.running.Wait()
	return l.close(ctx, handOver)
}

// Claims are the VIPs that are answered for, sorted by link.
func (l *Links) Claims() (all []netip.Addr) {
	for _, r := range l.Reached() {
		all = append(all, r.claims...)
	}
	return all
}

// run decides until the context ends.
func (l *Links) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case to := <-l.plans:
			l.take(to)
		case <-l.mesh.Changed():
		case <-l.wire.Changed():
		case f := <-l.found:
			l.onFound(f)
		case <-timer.C:
		}
		next := l.decide(ctx)
		if next == 0 {
			next = time.Hour
		}
		timer.Reset(next)
	}
}

// onFound takes in the outcome of a probe.
func (l *Links) onFound(found found) {
	succession := l.successions[found.subnet]
	if succession == nil {
		return
	}
	now := uptime.Now()
	found.Failed = found.Failed || now-found.began > probeCounts
	switch {
	case found.Failed:
	case found.Stranger:
		l.strangers[found.vip] = found.host
	default:
		delete(l.strangers, found.vip)
	}
	if succession.Probed(now, found.vip, found.Found) {
		l.wire.Announce(found.subnet, found.vip)
	}
}

// take takes over plans. A link that is gone is forgotten, and begins as newborn when it comes back: others
// have what this machine had on it. What the process before answered for counts for the links of the first
// plans alone.
func (l *Links) take(to Plans) {
	l.self, l.now = to.Machine, to.Links
	var subnets []netip.Prefix
	for _, p := range l.now {
		subnets = append(subnets, p.Link.Subnet)
	}
	maps.DeleteFunc(l.successions, func(subnet netip.Prefix, _ *advertise.Succession) bool { return !slices.Contains(subnets, subnet) })
	away := func(vip netip.Addr) bool {
		return !slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(vip) })
	}
	maps.DeleteFunc(l.heard, func(vip netip.Addr, _ time.Duration) bool { return away(vip) })
	maps.DeleteFunc(l.strangers, func(vip netip.Addr, _ onlink.MAC) bool {
		return !slices.ContainsFunc(l.now, func(p advertise.LinkPlan) bool {
			return slices.ContainsFunc(p.VIPs, func(v advertise.LinkVIP) bool { return v.VIP == vip })
		})
	})
	for _, subnet := range subnets {
		if l.successions[subnet] == nil {
			l.successions[subnet] = advertise.NewSuccession(l.remembered)
		}
	}
	l.remembered = nil
}

// decide makes a step on each link, and sets the wire accordingly. It returns when another is due; 0: none is by
// itself.
func (l *Links) decide(ctx context.Context) (next time.Duration) {
	heard := l.wire.State()
	plans, next := l.withWires(heard)
	next = sooner(next, l.setMesh(ctx, plans))
	there := l.mesh.State()
	var all []Reached
	var configs []onlink.Config
	for _, p := range plans {
		r := Reached{self: l.self, plan: p, mesh: meshOf(there, p.Link.Subnet), wire: wireOf(heard, p.Link.Subnet)}
		l.step(&r)
		next = sooner(next, r.step.Next)
		all, configs = append(all, r), append(configs, wireConfig(r, l.self))
	}
	err := l.wire.Set(ctx, configs)
	if ctx.Err() == nil {
		l.wireFailure = tellNew(l.log, "cannot answer for all addresses", l.wireFailure, err)
	}
	if err != nil {
		next = sooner(next, retryEvery)
	}
	l.mesh.Acted(there)           // the wire is silent where it cannot be set
	for _, reached := range all { // now that the wire has the link
		for _, vip := range reached.step.Probes {
			ask := l.wire.Probe
			if reached.hasOtherOwner(vip) { // who asks again and again asks as itself: of a probe over IPv6 all hosts hear the answer
				ask = l.wire.Ask
			}
			go l.probe(ctx, reached.plan, vip, ask)
		}
		for _, vip := range reached.step.Again {
			l.wire.AnnounceAnew(reached.plan.Link.Subnet, vip)
		}
	}
	l.publish(all)
	return next
}

// question asks on a link who has an address.
type question = func(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error)

// hasOtherOwner reports whether this machine takes another one for the owner of a VIP.
func (r Reached) hasOtherOwner(vip netip.Addr) bool {
	i := slices.IndexFunc(r.step.Owners, func(o advertise.Owned) bool { return o.VIP == vip })
	return i >= 0 && r.step.Owners[i].Owner != "" && r.step.Owners[i].Owner != r.self
}

// sooner is the shorter of two times until something is due; 0: never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// step decides on one link who answers, and what is to be looked for.
func (l *Links) step(reached *Reached) {
	subnet, now := reached.plan.Link.Subnet, uptime.Now()
	s := l.successions[subnet]
	l.observeHeard(s, reached)
	seg := reached.plan.Segment(l.self, reached.mesh.Standing, reached.mesh.Witness)
	seg.Resumed = reached.mesh.Resumed
	reached.step = s.Step(now, seg, reached.plan.VIPs)
	reached.strangers = map[netip.Addr]onlink.MAC{}
	for _, o := range reached.step.Owners {
		looks := reached.step.Quorum != advertise.NoQuorum && (o.Reason == lb.AddressConflict || o.Reason == lb.NoMajority)
		if host, has := l.strangers[o.VIP]; has && o.Owner == "" && looks {
			reached.strangers[o.VIP] = host
		} else {
			delete(l.strangers, o.VIP) // this machine looks for it no more: whoever answers or audits tells
		}
	}
	reached.claims = slices.DeleteFunc(slices.Clone(reached.step.Claims), func(vip netip.Addr) bool {
		_, pending := slices.BinarySearchFunc(reached.plan.Pending, vip, netip.Addr.Compare)
		return reached.plan.Silent || pending
	})
}

// observeHeard tells a succession which other machines were heard to claim something.
func (l *Links) observeHeard(succession *advertise.Succession, reached *Reached) {
	for _, state := range reached.wire.Addresses {
		if !state.Heard.Machine.IsValid() || state.Heard.At <= l.heard[state.Addr] {
			continue
		}
		l.heard[state.Addr] = state.Heard.At
		if succession.Heard(state.Heard.At, state.Addr, machineAt(reached.plan, state.Heard.Machine)) {
			l.wire.Announce(reached.plan.Link.Subnet, state.Addr)
		}
	}
}

// machineAt is the name of the machine with an address; empty: there is none.
func machineAt(p advertise.LinkPlan, addr netip.Addr) string {
	for _, m := range p.Link.Machines {
		if m.Addr == addr {
			return m.Name
		}
	}
	return ""
}

// probe looks for who has a VIP.
func (l *Links) probe(ctx context.Context, p advertise.LinkPlan, vip netip.Addr, ask question) {
	seen := found{subnet: p.Link.Subnet, vip: vip, began: uptime.Now()}
	macs, err := ask(ctx, p.Link.Subnet, vip, probeTries, probeEvery)
	for _, mac := range macs {
		addr, known := l.wire.Machine(p.Link.Subnet, mac)
		seen.Machine = machineAt(p, addr)
		if !known {
			seen.Stranger, seen.host = true, mac
		}
	}
	if err != nil {
		seen.Failed = true
		wake.After(ctx, probeTries*probeEvery) // a link that does not work is not asked again at once
	}
	select {
	case l.found <- seen:
	case <-ctx.Done():
	}
}

// tellNew logs an error unless it is as the last one was, and returns what it said.
func tellNew(log *slog.Logger, what, last string, err error) string {
	if err == nil {
		return ""
	}
	if err.Error() != last {
		log.Error(what, "err", err)
	}
	return err.Error()
}

// publish publishes the state that the links reached.
func (l *Links) publish(all []Reached) {
	l.shown.mu.Lock()
	before := l.shown.links
	l.shown.links = all
	l.shown.mu.Unlock()
	same := slices.EqualFunc(before, all, shownAlike)
	subnets := map[netip.Prefix]bool{}
	for _, r := range slices.Concat(before, all) {
		subnets[r.plan.Link.Subnet] = true
	}
	for _, subnet := range slices.SortedFunc(maps.Keys(subnets), netip.Prefix.Compare) {
		tellClaims(l.log, subnet, claimsOn(before, subnet), claimsOn(all, subnet))
	}
	if !same {
		l.changed()
	}
}

func claimsOn(all []Reached, subnet netip.Prefix) []netip.Addr {
	of, _ := inventory.Find(all, func(r Reached) bool { return r.plan.Link.Subnet == subnet })
	return of.claims
}

// tellClaims logs the VIPs that the machine begins to answer for, and those that it answers for no more.
func tellClaims(log *slog.Logger, subnet netip.Prefix, before, now []netip.Addr) {
	without := func(all, others []netip.Addr) []netip.Addr {
		return slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return slices.Contains(others, a) })
	}
	if put := without(now, before); len(put) > 0 {
		log.Info("answering on the link", "subnet", subnet, "vips", put)
	}
	if gone := without(before, now); len(gone) > 0 {
		log.Info("answering on the link no more", "subnet", subnet, "vips", gone)
	}
}

// Refusals are the VIPs that this machine does not answer for on its links, with the reasons, besides those in its plan.
func (l *Links) Refusals() (all []advertise.Refusal) {
	for _, r := range l.Reached() {
		refused := r.plan.Refused(r.step.Owners)
		if r.wire.Reason != "" {
			refused = withReason(r.plan, r.wire.Reason)
		}
		all = append(all, slices.DeleteFunc(refused, func(x advertise.Refusal) bool { return slices.Contains(r.plan.Refusals, x) })...)
	}
	slices.SortFunc(all, advertise.Refusal.Compare)
	return all
}
