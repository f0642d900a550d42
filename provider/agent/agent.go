package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/lb/kubeproxy"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/link"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/proxy"
	"plinth.dev/plinth/provider/agent/report"
	"plinth.dev/plinth/provider/agent/watch"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
)

const (
	// ProxyHealthURL is where kube-proxy says whether it serves.
	ProxyHealthURL = "http://127.0.0.1:10256/healthz"

	resyncEvery = 30 * time.Second
	reportEvery = 500 * time.Millisecond // at most
	rereadEvery = 20 * time.Millisecond  // at most: a thousand deletions are repaired together
	leaveWithin = 5 * time.Second
	bootGrace   = 30 * time.Second // after a boot: the API server, and kube-proxy
	waitsLong   = 30 * time.Second // for one thing, until the Node's condition says so
)

// Options say who the agent is and what it works with.
type Options struct {
	NodeName  string
	Identity  disk.MachineIdentity
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
	Wire    *onlink.Responder // with Mesh: answers for VIPs on links; nil: nobody does
	Mesh    *mesh.Mesh
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
	speaker speaker     // of a pass
	table   routeTable  // of a pass
	links   *link.Links // nil: none is answered on
	owners  *link.Owners
	sources *watch.Sources
	health  *proxy.Health
	gate    *proxy.Gate // used by the goroutine of Run alone
	writer  *report.Writer
	board   *report.Board
	dirty   chan struct{}
	drains  chan struct{}

	// Used by the goroutine of Run alone.
	saver         *disk.Saver
	schedule      schedule
	inputs        plan.Inputs // in force
	restored      *plan.Inputs
	bootGrace     time.Duration // with what comes up after a boot
	silence       time.Duration // after which the API server counts as away
	comesUp       time.Time     // until then the API server is waited for; zero: the machine has not just booted
	live          bool          // the API server has told all
	unlisted      bool          // the inventory has no machine for this Node any more
	restarting    bool
	planned       bool // at least once
	drain         plan.Drain
	phase         plan.Phase
	last          plan.Plan
	reached       kernel.State
	router        routing.Planner
	announcer     advertise.Planner
	answers       answers
	lastBasis     basis               // that last was made from
	lastRoutesKey plan.Key            // that last.Routing was made from
	down          map[netip.Addr]bool // routers that others stand in for
	inherited     map[netip.Addr]bool // of these, as the process before this one left them
	downChanged   bool                // since the last plan of routes
	speakerInSync bool                // the Speaker says what last says
	sessions      []bgp.SessionState
	tried         tried
	rotation      rotation
	settings      []kernel.Setting // that keep packets from pods
	witnesses     *link.Witnesses
	claimsOnDisk  []netip.Addr // that the last sign of life says are answered for
	waiting       string       // for what; what is in force stays in force meanwhile
	waitsSince    time.Time    // for that
	lastFailure   string       // of the last pass
	unread        lb.Unread    // of what is stored, as last told
	rereadDue     bool         // the kernel's routes are to be read back
	lastReread    time.Time    // because of an event
	reported      time.Time
}

// New returns an agent that has not touched anything yet.
func New(o Options) *Agent {
	a := &Agent{o: o, speaker: o.Speaker, table: o.Table, dirty: make(chan struct{}, 1), drains: make(chan struct{}, 1), saver: disk.NewSaver(), bootGrace: bootGrace, silence: heardLately, drain: plan.Drain{Time: o.DrainTime}, witnesses: link.NewWitnesses(kernel.GatewaysOn)}
	a.sources = watch.New(o.Client, o.Namespace, o.NodeName, a.touch)
	a.health = proxy.NewHealth(o.ProxyURL, a.touch)
	if o.Wire != nil && o.Mesh != nil {
		a.links = link.New(o.Wire, o.Mesh, a.touch)
	}
	a.owners = link.NewOwners(o.Client, o.NodeName)
	a.gate = new(proxy.Gate)
	if o.ProxyURL != "" {
		a.gate = proxy.NewGate(&kubeproxy.Prober{}, a.touch)
	}
	a.board = report.NewBoard(o.NodeName, report.Ask{Sessions: o.Speaker.State, LastSeen: a.sources.LastSeen, Links: a.links})
	a.writer = report.NewWriter(o.Client, o.NodeName, a.sources.Self)
	a.writer.Stuck = a.board.IsStuck
	return a
}

// Handler serves /healthz, /readyz, /metrics and /status.
func (a *Agent) Handler() http.Handler { return a.board.Handler() }

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
	if a.saver.Dir, err = disk.Open(a.o.StateDir, disk.Owner{Node: a.o.NodeName, Machine: a.o.Identity}); err != nil {
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
	a.sources.Start(work)
	go a.health.Run(work)
	go a.gate.Run(work)
	go a.writer.Run(work)
	a.saver.Start(work)
	if a.links != nil {
		a.links.Begin(work)
		go a.owners.Run(work)
	}
	a.schedule.timer = time.NewTimer(0)
	defer a.schedule.timer.Stop()
	a.loop(ctx, kernelEvents)
	return a.shutdown(work, kernelEvents)
}

// restore takes up what the process before this one left, if it was of this Node and
// machine.
func (a *Agent) restore() {
	before := a.saver.Dir.PreviousRun()
	in, err := a.saver.Dir.Load()
	if errors.Is(err, disk.ErrOtherOwner) {
		before = disk.PreviousRun{Booted: before.Booted}
	}
	a.follow(before)
	switch {
	case errors.Is(err, disk.ErrOtherOwner):
		slog.Warn("starting without the state on disk", "why", err)
	case err != nil:
		slog.Info("starting without a state", "why", err)
	case !before.Counts:
		slog.Info("the state on disk is too old to go by")
	default:
		a.restored = &in
		if before.Follows {
			a.gate.Adopt(in.Offers)
		}
		a.sources.Restore(in)
		a.answers.resume(in.Answered)
		if before.Follows && a.links != nil {
			a.links.Remember(before.Claims)
		}
	}
}

// follow goes on where the process before this one was.
func (a *Agent) follow(before disk.PreviousRun) {
	a.restarting = before.Follows
	if before.Drained != nil {
		a.drain.Resume(time.Now(), *before.Drained)
	}
	a.down, a.inherited = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	if before.Counts {
		for _, router := range before.Lost {
			a.down[router], a.inherited[router] = true, true
		}
	}
	if first := !before.Follows && !kubeproxy.Replaced(); first || before.Booted {
		a.health.GiveTime(time.Now().Add(a.bootGrace)) // both begin together on a machine that joins
	}
	if before.Booted {
		a.comesUp = time.Now().Add(a.bootGrace)
		slog.Info("the machine has booted", "the API server and kube-proxy are given", a.bootGrace)
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
			a.saver.Invalidate()
			a.writeAlive()
			a.checkSettings()
		case <-a.drains:
			a.drain.Asked = true
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
	a.board.Reread()
}

func (a *Agent) writeAlive() {
	if !a.planned {
		return // nothing that another process could follow
	}
	a.saver.WriteAlive(a.handover())
}

// handover are what the process after this one should know besides its inputs.
func (a *Agent) handover() disk.Handover {
	s := disk.Handover{Drained: a.drain.Lasted(time.Now()), Lost: a.down}
	if a.links != nil {
		s.Claims = a.links.Claims()
	}
	return s
}

// checkSettings tells of kernel settings that stand in the way of pods' packets, or changes them.
func (a *Agent) checkSettings() {
	if !a.planned {
		return // it may wait for its inventory still
	}
	m, err := a.inputs.Machine()
	if err != nil {
		return
	}
	a.findWitnesses(m)
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

// refusalsTold bounds how many lines one plan can add to the log; /status has them all.
const refusalsTold = 10
