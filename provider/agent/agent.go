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

	"plinth.dev/plinth/inventory"
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
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/wake"
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

	Log     *slog.Logger // nil: slog's default
	Client  kubernetes.Interface
	Speaker *bgp.Speaker
	Table   *kernel.Table
	Wire    *onlink.Responder // with Mesh: answers for VIPs on links; nil: nobody does
	Mesh    *mesh.Mesh
}

// Agent is the agent of one node. What it holds is for the goroutine of Run alone, but for what guards itself: the sources, the
// parts of kubeProxy, the board and the writer, the saver, the links and the owners.
type Agent struct {
	o      Options
	dirty  chan struct{}
	drains chan struct{}

	sources   *watch.Sources
	kubeProxy kubeProxy
	outside   outside
	reporting reporting
	disk      onDisk

	schedule schedule
	rereads  rereads
	grace    grace
	inputs   plan.Inputs // in force
	known    known
	waiting  waiting
	answers  answers
	routers  routers
	drain    plan.Drain
	phase    plan.Phase
	planned  planned
}

// New returns an agent that has not touched anything yet.
func New(options Options) *Agent {
	if options.Log == nil {
		options.Log = slog.Default()
	}
	agent := &Agent{
		o: options, dirty: make(chan struct{}, 1), drains: make(chan struct{}, 1), drain: plan.Drain{Time: options.DrainTime},
		outside: outside{speaker: options.Speaker, table: options.Table, witnesses: link.NewWitnesses(options.Log, kernel.GatewaysOn)},
		disk:    onDisk{saver: disk.NewSaver(options.Log)}, routers: routers{rotation: rotation{log: options.Log}}, grace: grace{boot: bootGrace, silence: heardLately},
	}
	agent.sources = watch.New(options.Log, options.Client, options.Namespace, options.NodeName, agent.touch)
	agent.kubeProxy.health = proxy.NewHealth(options.ProxyURL, agent.touch)
	if options.Wire != nil && options.Mesh != nil {
		agent.outside.links = link.New(options.Log, options.Wire, options.Mesh, agent.touch)
	}
	agent.outside.owners = link.NewOwners(options.Log, options.Client, options.NodeName)
	agent.kubeProxy.gate = new(proxy.Gate)
	if options.ProxyURL != "" {
		agent.kubeProxy.gate = proxy.NewGate(&kubeproxy.Prober{}, agent.touch)
	}
	agent.reporting.board = report.NewBoard(options.NodeName, report.Ask{Sessions: options.Speaker.State, LastSeen: agent.sources.LastSeen, Links: agent.outside.links})
	agent.reporting.writer = report.NewWriter(options.Log, options.Client, options.NodeName, agent.sources.Self)
	agent.reporting.writer.Stuck = agent.reporting.board.IsStuck
	return agent
}

// Handler serves /healthz, /readyz, /metrics and /status.
func (a *Agent) Handler() http.Handler { return a.reporting.board.Handler() }

// Drain makes the agent move traffic away from the machine, and announce nothing
// from then on until it is stopped. It returns at once.
func (a *Agent) Drain() { wake.Up(a.drains) }

// touch marks the state as dirty.
func (a *Agent) touch() { wake.Up(a.dirty) }

// Run works until the context ends, and then leaves. Routes stay in the kernel.
func (a *Agent) Run(ctx context.Context) error {
	var err error
	if a.disk.saver.Dir, err = disk.Open(a.o.StateDir, disk.Owner{Node: a.o.NodeName, Machine: a.o.Identity}); err != nil {
		return err
	}
	a.restore()
	kernelEvents, err := a.outside.table.Watch(ctx)
	if err != nil {
		return err
	}
	defer a.outside.table.Close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.begin(work)
	a.disk.saver.Start(work)
	a.schedule.timer = time.NewTimer(0)
	defer a.schedule.timer.Stop()
	a.loop(ctx, kernelEvents)
	return a.shutdown(work, kernelEvents)
}

// begin starts what runs beside the loop until the context ends, but for the writer of the state directory.
func (a *Agent) begin(ctx context.Context) {
	a.sources.Start(ctx)
	go a.kubeProxy.health.Run(ctx)
	go a.kubeProxy.gate.Run(ctx)
	go a.reporting.writer.Run(ctx)
	if a.outside.links != nil {
		a.outside.links.Begin(ctx)
		go a.outside.owners.Run(ctx)
	}
}

// restore takes up what the process before this one left, if it was of this Node and
// machine.
func (a *Agent) restore() {
	before := a.disk.saver.Dir.PreviousRun()
	in, err := a.disk.saver.Dir.Load()
	if errors.Is(err, disk.ErrOtherOwner) {
		before = disk.PreviousRun{Booted: before.Booted, Unread: before.Unread}
	}
	if before.Unread != nil {
		a.o.Log.Warn("starting as if no agent had run here before", "why", before.Unread)
	}
	a.follow(before)
	switch {
	case errors.Is(err, disk.ErrOtherOwner):
		a.o.Log.Warn("starting without the state on disk", "why", err)
	case err != nil:
		a.o.Log.Info("starting without a state", "why", err)
	case !before.Counts:
		a.o.Log.Info("starting without the state on disk: it is too old")
	default:
		a.known.restored = &in
		if before.Follows {
			a.kubeProxy.gate.Adopt(in.Offers)
		}
		a.sources.Restore(in)
		a.answers.resume(in.Answered)
		if before.Follows && a.outside.links != nil {
			a.outside.links.Remember(before.Claims)
		}
	}
}

// follow goes on where the process before this one was.
func (a *Agent) follow(before disk.PreviousRun) {
	a.planned.restarting = before.Follows
	if before.Drained != nil {
		a.drain.Resume(time.Now(), *before.Drained)
	}
	a.routers.down, a.routers.inherited = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	if before.Counts {
		for _, router := range before.Lost {
			a.routers.down[router], a.routers.inherited[router] = true, true
		}
	}
	if first := !before.Follows && !kubeproxy.Replaced(); first || before.Booted {
		a.kubeProxy.health.GiveTime(time.Now().Add(a.grace.boot)) // both begin together on a machine that joins
	}
	if before.Booted {
		a.grace.until = time.Now().Add(a.grace.boot)
		a.o.Log.Info("giving the API server and kube-proxy time: the machine has booted", "grace", a.grace.boot)
	}
}

// loop makes a pass whenever something changed, and now and then in any case.
func (a *Agent) loop(ctx context.Context, kernelEvents <-chan struct{}) {
	tick := time.NewTicker(resyncEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		events := kernelEvents
		if a.rereads.due {
			events = nil // one reread covers all events until then
		}
		select {
		case <-ctx.Done():
			return
		case <-events:
			a.rereads.due = true
		case <-tick.C:
			a.outside.table.Invalidate()
			a.planned.inSync = false
			a.disk.saver.Invalidate()
			a.writeAlive()
			a.checkSettings()
		case <-a.drains:
			a.drain.Asked = true
		case <-a.dirty:
		case <-a.outside.speaker.Changed():
			a.reporting.at = time.Time{}
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
	if !a.rereads.due {
		return
	}
	if wait := rereadEvery - time.Since(a.rereads.last); wait > 0 {
		a.schedule.wakeIn(wait)
		return
	}
	a.rereads.due, a.rereads.last = false, time.Now()
	a.outside.table.Invalidate()
	a.reporting.board.Reread()
}

func (a *Agent) writeAlive() {
	if !a.planned.once {
		return // nothing that another process could follow
	}
	a.disk.saver.WriteAlive(a.handover())
}

// handover returns the state that the process after this one needs besides its inputs.
func (a *Agent) handover() disk.Handover {
	s := disk.Handover{Drained: a.drain.Lasted(time.Now()), Lost: a.routers.down}
	if a.outside.links != nil {
		s.Claims = a.outside.links.Claims()
	}
	return s
}

// checkSettings reports kernel settings that stand in the way of pods' packets, or changes them.
func (a *Agent) checkSettings() {
	if !a.planned.once {
		return // it may wait for its inventory still
	}
	machine, err := a.inputs.Machine()
	if err != nil {
		return
	}
	a.findWitnesses(machine)
	found, err := kernel.BadSettings(machine.Addresses, a.planned.plan.Routing.Routes)
	if a.o.SetSysctls && len(found) > 0 {
		a.o.Log.Info("changing kernel settings", "settings", fmt.Sprint(found))
		err = errors.Join(err, kernel.FixSettings(found))
		found, _ = kernel.BadSettings(machine.Addresses, a.planned.plan.Routing.Routes)
	}
	if err != nil {
		a.o.Log.Warn("cannot read or change kernel settings", "err", err)
	}
	if !slices.Equal(found, a.reporting.settings) && len(found) > 0 {
		a.o.Log.Warn("found kernel settings that stand in the way of pods' packets", "settings", fmt.Sprint(found))
	}
	a.reporting.settings = found
}

// refusalsTold bounds how many lines one plan can add to the log; /status has them all.
const refusalsTold = 10

// setLinks hands the links what is planned.
func (a *Agent) setLinks(m inventory.Machine) {
	if a.outside.links != nil {
		a.outside.links.Set(link.Plans{Machine: m.Name, Links: a.outside.witnesses.Fill(a.planned.plan.Links)})
	}
}

// findWitnesses looks for the machine's default gateways again.
func (a *Agent) findWitnesses(m inventory.Machine) {
	if a.outside.witnesses.Refresh(a.planned.plan.Links) {
		a.setLinks(m)
	}
}

// writeClaims leaves a sign of what is answered for, where that has changed.
func (a *Agent) writeClaims() {
	if a.outside.links == nil || !a.planned.once {
		return
	}
	if claims := a.outside.links.Claims(); !slices.Equal(claims, a.disk.claims) {
		a.disk.claims = claims
		a.writeAlive()
	}
}
