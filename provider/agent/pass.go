package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/kubeproxy"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
)

// pass takes a snapshot, plans, applies and reports.
func (a *Agent) pass(ctx context.Context) {
	started := time.Now()
	machine, ok := a.observe(ctx)
	if !ok {
		a.tell()
		a.publish()
		return
	}
	a.enter(a.drain.At(started, machine.State == inventory.StateMaintenance, !a.planned.once))
	healthy, _ := a.kubeProxy.health.State()
	st := a.step(started)
	a.decide(machine, healthy, st)
	a.observePlan(started)
	if !a.planned.once && a.kubeProxy.gate.AwaitFirst(ctx) { // routers take what is missing from the first words for gone
		a.admit(time.Now())
		a.decide(machine, healthy, st)
		a.observePlan(time.Now())
	}
	a.routers.tried.begin(a.inputs.Trial, a.routers.sessions)
	err := a.apply(ctx)
	a.writeClaims()
	if a.outside.links != nil {
		a.outside.owners.Report(a.outside.links.Reached(), a.sources.OwnerOf)
	}
	a.finish(started, err)
	a.report(ctx)
}

// enter begins a phase, and leaves a sign of it for the process after this one.
func (a *Agent) enter(ph plan.Phase) {
	before := a.phase
	a.phase = ph
	if before.Draining != ph.Draining || before.Withdrawn != ph.Withdrawn {
		a.writeAlive()
	}
}

// decide makes the plan, unless all that it depends on is as it was: most events change
// nothing of it.
func (a *Agent) decide(machine inventory.Machine, healthy bool, st plan.Step) {
	now := basis{plan.Key{Version: a.inputs.Version, Step: st}, a.phase.Draining, a.phase.Withdrawn, healthy, a.known.unlisted}
	if a.planned.once && now == a.planned.basis && !a.routers.changed {
		return
	}
	a.planned.inSync, a.planned.basis = false, now
	a.planned.plan = plan.Of(&a.planned.announcer, a.inputs, machine, a.phase, healthy, st, a.routes(machine, st))
	a.planned.plan.BGP.Restarting = a.planned.restarting
	for i, s := range a.planned.plan.BGP.Sessions {
		a.planned.plan.BGP.Sessions[i].Password = a.routers.rotation.password(s.Session, a.inputs.Passwords)
	}
	if a.known.unlisted {
		a.planned.plan.Links = nil
	}
	a.setLinks(machine)
}

// observePlan looks for kube-proxy's rules where the plan lacks nothing else.
func (a *Agent) observePlan(now time.Time) {
	with := kubeproxy.Round{Addresses: a.inputs.Self.Addresses, Proxy: a.kubeProxy.health.IsKubeProxy()}
	a.schedule.wakeIn(a.kubeProxy.gate.Observe(a.planned.plan, with, now))
}

// syncSpeaker gives the Speaker what is planned. A plan that it took without an error is
// given again only on a resync.
func (a *Agent) syncSpeaker(ctx context.Context) error {
	if a.planned.inSync {
		return nil
	}
	err := a.outside.speaker.Set(ctx, a.planned.plan.BGP)
	a.planned.inSync = err == nil
	return err
}

// step returns the step of the transition of the mode. What a process before this one knew is in
// force as it is, and a change that waits for something has not begun.
func (a *Agent) step(now time.Time) plan.Step {
	if a.known.restored != nil {
		return plan.StepOf(a.inputs.Inventory)
	}
	if a.waiting.what != "" {
		return a.planned.basis.Step
	}
	st, left := a.sources.Step(now)
	a.schedule.wakeIn(left)
	return st
}

// routes plans the routes unless what they depend on is as it was.
func (a *Agent) routes(machine inventory.Machine, st plan.Step) routing.Table {
	now := plan.Key{Version: a.inputs.Version.ForRoutes(), Step: st}
	if a.planned.once && now == a.planned.routesKey && !a.routers.changed {
		return a.planned.plan.Routing
	}
	a.planned.routesKey, a.routers.changed = now, false
	view := plan.RoutingView(a.inputs, machine, st.Routes, a.routers.down)
	view.VXLAN, view.AlsoVXLAN = st.VXLAN, st.AlsoVXLAN
	table := a.planned.router.Plan(view)
	if st.Tunnel && st.Routes != inventory.ModeOverlay {
		view.Mode = inventory.ModeOverlay
		table.Tunnel = routing.Plan(view).Tunnel
	}
	tellRefusals(a.o.Log, a.planned.plan.Routing.Refusals, table.Refusals)
	tellCoarse(a.o.Log, a.planned.plan.Routing.Coarse, table.Coarse)
	return table
}

// tellRefusals logs which pod CIDRs are not routed that were.
func tellRefusals(log *slog.Logger, before, now []routing.Refusal) {
	told := 0
	for _, refusal := range now {
		if slices.Contains(before, refusal) {
			continue
		}
		if told++; told > refusalsTold {
			log.Warn("found no route for more pod CIDRs; see /status", "all", len(now))
			return
		}
		log.Warn("found no route for a pod CIDR", "node", refusal.Node, "cidr", refusal.CIDR, "reason", refusal.Reason, "holder", refusal.Other)
	}
}

// apply carries out the plan. A part that fails does not stop the rest.
func (a *Agent) apply(ctx context.Context) error {
	table := a.planned.plan.Routing
	var tunnelErr error
	if table.Tunnel.Exists() {
		tunnelErr = a.outside.table.SetTunnel(ctx, table.Tunnel)
	}
	var tableErr error
	a.planned.reached, tableErr = a.outside.table.Set(ctx, table.Routes)
	if !table.Tunnel.Exists() {
		tunnelErr = a.outside.table.SetTunnel(ctx, routing.Tunnel{}) // its routes went first
	}
	if first := a.planned.reached.Retried; len(first) > 0 {
		a.o.Log.Warn("retried routes that the kernel refused at first", "refused", len(first), "first", first[0], "failed", len(a.planned.reached.Failed))
	}
	if a.planned.reached.Changed > 0 {
		a.o.Log.Info("changed routes", "changed", a.planned.reached.Changed, "held", a.planned.reached.Have, "wanted", a.planned.reached.Want)
	}
	return errors.Join(tunnelErr, tableErr, a.syncSpeaker(ctx))
}

// finish counts a pass and sees to the next one.
func (a *Agent) finish(started time.Time, err error) {
	a.reporting.board.Pass(time.Since(started), a.planned.reached, err)
	if !a.planned.once {
		a.planned.once = true
		a.writeAlive()
		a.checkSettings()
	}
	a.planned.restarting = false
	a.tellFailure(err)
	a.schedule.retryAfter(err)
	a.schedule.wakeIn(a.phase.Next)
}

// tellFailure logs a failure, unless the last pass failed for the same reason.
func (a *Agent) tellFailure(err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	switch {
	case said == a.reporting.failure:
	case err != nil:
		a.o.Log.Error("failed to carry out all of the plan", "err", err)
	default:
		a.o.Log.Info("carried out all of the plan again")
	}
	a.reporting.failure = said
}
