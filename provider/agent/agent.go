package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/lb/kubeproxy"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
)

const (
	// ProxyHealthURL is where kube-proxy says whether it serves.
	ProxyHealthURL = "http://127.0.0.1:10256/healthz"

	resyncEvery = 30 * time.Second
	reportEvery = 500 * time.Millisecond // at most
	saveEvery   = time.Second            // at most
	rereadEvery = 20 * time.Millisecond  // at most: a thousand deletions are repaired together
	leaveWithin = 5 * time.Second
	comesUp     = 30 * time.Second // after a boot: the API server, and kube-proxy
	waitsLong   = 30 * time.Second // for one thing, until the Node's condition says so
)

// Options say who the agent is and what it works with.
type Options struct {
	NodeName  string
	Identity  MachineIdentity
	Namespace string // Plinth's
	StateDir  string
	ProxyURL  string        // of kube-proxy's health check
	DrainTime time.Duration // between GRACEFUL_SHUTDOWN and withdrawing
	// WithdrawOnStop has the agent drain when it is stopped. Otherwise it leaves
	// without a word, and routers keep its routes for the process that follows.
	WithdrawOnStop bool
	// SetSysctls has the agent change kernel settings that keep packets from pods;
	// otherwise it only tells of them.
	SetSysctls bool

	Client  kubernetes.Interface
	Speaker *bgp.Speaker
	Table   *kernel.Table
}

// speaker is what a pass announces by.
type speaker interface {
	Set(context.Context, bgp.Config) error
	State(context.Context) []bgp.SessionState
}

// routeTable is what a pass routes by.
type routeTable interface {
	Set(context.Context, []routing.Route) (kernel.State, error)
	SetTunnel(context.Context, routing.Tunnel) error
}

// Agent is the agent of one node.
type Agent struct {
	o       Options
	speaker speaker    // of a pass
	table   routeTable // of a pass
	sources *sources
	proxy   *proxy
	gate    gate // used by the goroutine of Run alone
	writer  *writer
	metrics *metrics
	dirty   chan struct{}
	drains  chan struct{}
	status  atomic.Pointer[Status]

	// Used by the goroutine of Run alone.
	saver         *saver
	schedule      schedule
	inputs        inputs // in force
	restored      *inputs
	patience      time.Duration // with what comes up after a boot
	comesUp       time.Time     // until then the API server is waited for; zero: the machine has not just booted
	live          bool          // the API server has told all
	restarting    bool
	planned       bool // at least once
	drain         drain
	phase         phase
	last          plan
	reached       kernel.State
	router        routing.Planner
	announcer     advertise.Planner
	lastBasis     basis               // that last was made from
	lastRoutesKey planKey             // that last.Routing was made from
	down          map[netip.Addr]bool // routers that others stand in for
	inherited     map[netip.Addr]bool // of these, as the process before this one left them
	downChanged   bool                // since the last plan of routes
	speakerInSync bool                // the Speaker says what last says
	sessions      []bgp.SessionState
	tried         tried
	rotation      rotation
	settings      []kernel.Setting // that keep packets from pods
	waiting       string           // for what; what is in force stays in force meanwhile
	waitsSince    time.Time        // for that
	lastFailure   string           // of the last pass
	unread        []string         // of what is stored, as last told
	rereadDue     bool             // the kernel's routes are to be read back
	lastReread    time.Time        // because of an event
	reported      time.Time
}

// New returns an agent that has not touched anything yet.
func New(o Options) *Agent {
	a := &Agent{o: o, speaker: o.Speaker, table: o.Table, dirty: make(chan struct{}, 1), drains: make(chan struct{}, 1), saver: newSaver(), patience: comesUp, drain: drain{time: o.DrainTime}}
	a.sources = newSources(o.Client, o.Namespace, o.NodeName, a.touch)
	a.proxy = newProxy(o.ProxyURL, a.touch)
	if o.ProxyURL != "" {
		a.gate = newGate(&kubeproxy.Prober{}, a.touch)
	}
	a.writer = newWriter(o.Client, o.NodeName, a.sources.selfNow)
	a.metrics = newMetrics(a)
	a.status.Store(&Status{Node: o.NodeName, WaitingFor: "the first pass"})
	return a
}

// Drain has the agent move traffic away from the machine, and announce nothing
// from then on until it is stopped. It returns at once.
func (a *Agent) Drain() {
	select {
	case a.drains <- struct{}{}:
	default:
	}
}

// touch marks the state as dirty.
func (a *Agent) touch() {
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// Run works until the context ends, and then leaves. Routes stay in the kernel.
func (a *Agent) Run(ctx context.Context) error {
	var err error
	if a.saver.disk, err = openDisk(a.o.StateDir, owner{a.o.NodeName, a.o.Identity}); err != nil {
		return err
	}
	a.restore()
	kernelEvents, err := a.o.Table.Watch(ctx)
	if err != nil {
		return err
	}
	defer a.o.Table.Close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.sources.start(work)
	go a.proxy.run(work)
	if a.gate.asker != nil {
		go a.gate.asker.run(work)
	}
	go a.writer.run(work)
	a.saver.start(work)
	a.schedule.timer = time.NewTimer(0)
	defer a.schedule.timer.Stop()
	a.loop(ctx, kernelEvents)
	return a.leave(work, kernelEvents)
}

// restore takes up what the process before this one left, if it was of this Node and
// machine.
func (a *Agent) restore() {
	before := a.saver.disk.predecessor()
	in, err := a.saver.disk.load()
	if errors.Is(err, errOtherOwner) {
		before = past{booted: before.booted}
	}
	a.follow(before)
	switch {
	case errors.Is(err, errOtherOwner):
		slog.Warn("starting without the state on disk", "why", err)
	case err != nil:
		slog.Info("starting without a state", "why", err)
	case !before.counts:
		slog.Info("the state on disk is too old to go by")
	default:
		a.restored = &in
		if before.follows && a.gate.rules != nil {
			a.gate.rules.Adopt(in.Offers)
		}
		a.sources.remembered = rememberedOf(in)
	}
}

// follow goes on where the process before this one was.
func (a *Agent) follow(before past) {
	a.restarting = before.follows
	if before.drained != nil {
		a.drain.resume(time.Now(), *before.drained)
	}
	a.down, a.inherited = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	if before.counts {
		for _, router := range before.lost {
			a.down[router], a.inherited[router] = true, true
		}
	}
	if first := !before.follows && !kubeproxy.Replaced(); first || before.booted {
		a.proxy.comesUp = time.Now().Add(a.patience) // both begin together on a machine that joins
	}
	if before.booted {
		a.comesUp = a.proxy.comesUp
		slog.Info("the machine has booted", "the API server and kube-proxy are given", a.patience)
	}
}

// loop makes a pass whenever something changed, and now and then in any case.
func (a *Agent) loop(ctx context.Context, kernelEvents <-chan struct{}) {
	tick := time.NewTicker(resyncEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		events := kernelEvents
		if a.rereadDue {
			events = nil // one reread covers all events until then
		}
		select {
		case <-ctx.Done():
			return
		case <-events:
			a.rereadDue = true
		case <-tick.C:
			a.o.Table.Doubt()
			a.speakerInSync = false
			a.saver.forget()
			a.signOfLife()
			a.checkSettings()
		case <-a.drains:
			a.drain.asked = true
		case <-a.dirty:
		case <-a.o.Speaker.Changed():
			a.reported = time.Time{}
		case <-a.schedule.timer.C:
			a.schedule.fired()
		}
		a.reread()
		a.pass(ctx)
	}
}

// reread has the next pass read the kernel's routes back if an event called for it. Events
// come in bursts: the first is acted on at once, the rest together. Announcements do not
// wait for that.
func (a *Agent) reread() {
	if !a.rereadDue {
		return
	}
	if wait := rereadEvery - time.Since(a.lastReread); wait > 0 {
		a.schedule.wakeIn(wait)
		return
	}
	a.rereadDue, a.lastReread = false, time.Now()
	a.o.Table.Doubt()
	a.metrics.doubts.Inc()
}

func (a *Agent) signOfLife() {
	if !a.planned {
		return // nothing that another process could follow
	}
	a.saver.sign(a.drain.lasted(time.Now()), a.down)
}

// checkSettings tells of kernel settings that stand in the way of pods' packets, or changes them.
func (a *Agent) checkSettings() {
	if !a.planned {
		return // it may wait for its inventory still
	}
	m, err := a.inputs.machine()
	if err != nil {
		return
	}
	found, err := kernel.BadSettings(m.Addresses, a.last.Routing.Routes)
	if a.o.SetSysctls && len(found) > 0 {
		slog.Info("changing kernel settings", "settings", fmt.Sprint(found))
		err = errors.Join(err, kernel.FixSettings(found))
		found, _ = kernel.BadSettings(m.Addresses, a.last.Routing.Routes)
	}
	if err != nil {
		slog.Warn("kernel settings", "err", err)
	}
	if !slices.Equal(found, a.settings) && len(found) > 0 {
		slog.Warn("kernel settings stand in the way of pods' packets", "settings", fmt.Sprint(found))
	}
	a.settings = found
}

// pass takes a snapshot, plans, applies and reports.
func (a *Agent) pass(ctx context.Context) {
	started := time.Now()
	m, ok := a.observe(ctx)
	if !ok {
		a.tell()
		a.publish()
		return
	}
	a.enter(a.drain.at(started, m.State == inventory.StateMaintenance, !a.planned))
	healthy, _ := a.proxy.state()
	st := a.stage(started)
	a.decide(m, healthy, st)
	a.observePlan(started)
	if !a.planned && a.gate.awaitFirst(ctx) { // routers take what is missing from the first words for gone
		a.admit(time.Now())
		a.decide(m, healthy, st)
		a.observePlan(time.Now())
	}
	a.tried.begin(a.inputs.trial, a.sessions)
	err := a.apply(ctx)
	a.finish(started, err)
	a.report(ctx)
}

// enter begins a phase, and leaves a sign of it for the process after this one.
func (a *Agent) enter(ph phase) {
	before := a.phase
	a.phase = ph
	if before.Draining != ph.Draining || before.Withdrawn != ph.Withdrawn {
		a.signOfLife()
	}
}

// basis is all that a plan depends on, besides the routers that lost their session.
type basis struct {
	planKey
	draining, withdrawn bool
	healthy             bool // kube-proxy
}

// decide makes the plan, unless all that it depends on is as it was: most events change
// nothing of it.
func (a *Agent) decide(m inventory.Machine, healthy bool, st stage) {
	now := basis{planKey{a.inputs.version, st}, a.phase.Draining, a.phase.Withdrawn, healthy}
	if a.planned && now == a.lastBasis && !a.downChanged {
		return
	}
	a.speakerInSync, a.lastBasis = false, now
	a.last = planOf(&a.announcer, a.inputs, m, a.phase, healthy, st, a.routes(m, st))
	a.last.BGP.Restarting = a.restarting
	for i, s := range a.last.BGP.Sessions {
		a.last.BGP.Sessions[i].Password = a.rotation.password(s.Session, a.inputs.Passwords)
	}
}

// observePlan has kube-proxy's rules looked for where the plan lacks nothing else.
func (a *Agent) observePlan(now time.Time) {
	with := kubeproxy.Round{Addresses: a.inputs.Self.Addresses, Proxy: a.proxy.isKubeProxy()}
	a.schedule.wakeIn(a.gate.observe(a.last, with, now))
}

// syncSpeaker gives the Speaker what is planned. A plan that it took without an error is
// given again only on a resync.
func (a *Agent) syncSpeaker(ctx context.Context) error {
	if a.speakerInSync {
		return nil
	}
	err := a.speaker.Set(ctx, a.last.BGP)
	a.speakerInSync = err == nil
	return err
}

// stage is where a change of mode stands. What a process before this one knew is in
// force as it is, and a change that waits for something has not begun.
func (a *Agent) stage(now time.Time) stage {
	if a.restored != nil {
		s := shift{to: carriageOf(a.inputs.Inventory)}
		st, _ := s.at(now)
		return st
	}
	if a.waiting != "" {
		return a.lastBasis.stage
	}
	a.sources.shift.begin(now)
	st, left := a.sources.shift.at(now)
	a.schedule.wakeIn(left)
	return st
}

// routes plans the routes unless what they depend on is as it was.
func (a *Agent) routes(m inventory.Machine, st stage) routing.Table {
	now := planKey{a.inputs.version.forRoutes(), st}
	if a.planned && now == a.lastRoutesKey && !a.downChanged {
		return a.last.Routing
	}
	a.lastRoutesKey, a.downChanged = now, false
	view := routingView(a.inputs, m, st.routes, a.down)
	view.VXLAN, view.AlsoVXLAN = st.vxlan, st.also
	t := a.router.Plan(view)
	if st.tunnel && st.routes != inventory.ModeOverlay {
		view.Mode = inventory.ModeOverlay
		t.Tunnel = routing.Plan(view).Tunnel
	}
	tellRefusals(a.last.Routing.Refusals, t.Refusals)
	return t
}

// refusalsTold bounds how many lines one plan can add to the log; /status has them all.
const refusalsTold = 10

// tellRefusals logs which pod CIDRs are not routed that were.
func tellRefusals(before, now []routing.Refusal) {
	told := 0
	for _, r := range now {
		if slices.Contains(before, r) {
			continue
		}
		if told++; told > refusalsTold {
			slog.Warn("more pod CIDRs have no route; see /status", "all", len(now))
			return
		}
		slog.Warn("a pod CIDR has no route", "node", r.Node, "cidr", r.CIDR, "reason", r.Reason, "holder", r.Other)
	}
}

// planKey tells apart what something was planned from: the same key, the same plan.
type planKey struct {
	version
	stage
}

// apply has the plan carried out. What fails does not stop the rest.
func (a *Agent) apply(ctx context.Context) error {
	t := a.last.Routing
	var tunnelErr error
	if t.Tunnel.Exists() {
		tunnelErr = a.table.SetTunnel(ctx, t.Tunnel)
	}
	var tableErr error
	a.reached, tableErr = a.table.Set(ctx, t.Routes)
	if !t.Tunnel.Exists() {
		tunnelErr = a.table.SetTunnel(ctx, routing.Tunnel{}) // its routes went first
	}
	if first := a.reached.Retried; len(first) > 0 {
		slog.Warn("the kernel did not take all routes at first", "refused", len(first), "first", first[0], "of them still", len(a.reached.Failed))
	}
	if a.reached.Changed > 0 {
		slog.Info("changed routes", "changed", a.reached.Changed, "held", a.reached.Have, "wanted", a.reached.Want)
	}
	return errors.Join(tunnelErr, tableErr, a.syncSpeaker(ctx))
}

// finish counts a pass and sees to the next one.
func (a *Agent) finish(started time.Time, err error) {
	a.metrics.pass(time.Since(started), a.reached, err)
	if !a.planned {
		a.planned = true
		a.signOfLife()
		a.checkSettings()
	}
	a.restarting = false
	a.tellFailure(err)
	a.schedule.retryAfter(err)
	a.schedule.wakeIn(a.phase.next)
}

// tellFailure logs what failed, unless the last pass failed for the same.
func (a *Agent) tellFailure(err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	switch {
	case said == a.lastFailure:
	case err != nil:
		slog.Error("not all is as planned", "err", err)
	default:
		slog.Info("all is as planned again")
	}
	a.lastFailure = said
}
