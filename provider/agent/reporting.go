package agent

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
)

// cutOffAfter is more than the restart time for which routers keep routes by default.
const cutOffAfter = 90 * time.Second

// report tells the Node's condition, the status and the metrics what was reached.
// Asking the sessions costs more than a pass, so that during a burst it waits.
func (a *Agent) report(ctx context.Context) {
	if wait := reportEvery - time.Since(a.reporting.at); wait > 0 && !a.reporting.at.IsZero() {
		a.schedule.wakeIn(wait)
		a.publish()
		return
	}
	a.reporting.at = time.Now()
	sessions := a.outside.speaker.State(ctx)
	if ctx.Err() != nil {
		return // not all of them have answered
	}
	a.routers.sessions = sessions
	a.routers.tried.observe(a.inputs.Trial, a.planned.plan.BGP.Sessions, sessions)
	down, next := lostRouters(a.routers.sessions, a.routers.inherited, time.Now())
	if !maps.Equal(down, a.routers.down) {
		a.routers.down, a.routers.changed = down, true
		a.writeAlive()
		a.touch()
	}
	a.schedule.wakeIn(next)
	a.tell()
	a.publish()
}

// tell reports in the Node's condition the state that was reached, and the input that is long pending:
// what is in force then may be old.
func (a *Agent) tell() {
	a.tellUnread()
	if c, due := a.condition(); due {
		a.reporting.writer.Set(c)
	}
}

// condition returns the desired condition of the Node; due: it is to be written.
func (a *Agent) condition() (condition plan.Condition, due bool) {
	statement := a.tally().Statement().Outdated(a.reporting.unread)
	statement.Report.Passwords = a.routers.rotation.refused()
	statement.Report.ProxyRefuses, statement.Report.RulesLost = a.kubeProxy.health.Refuses(), a.kubeProxy.gate.RulesLost()
	if a.inputs.Trial != nil && a.routers.tried.said.ID == a.inputs.Trial.ID {
		statement.Report.Trial = a.routers.tried.said
	}
	statement.Report.NameWithheld(report.Withheld(a.routers.sessions))
	statement.Report.NameLinks(a.outside.links.Problems())
	statement.Report.NameSettings(report.Settings(a.reporting.settings))
	if a.waiting.what != "" && time.Since(a.waiting.since) >= waitsLong {
		statement = statement.Waits(a.waiting.what)
	}
	condition = statement.Condition()
	return condition, a.planned.once || condition.Ready == corev1.ConditionFalse
}

// tally counts the routes and sessions that the condition reports. A session counts when it is up and its
// router was told all of the machine's pod CIDRs that it is to know.
func (a *Agent) tally() report.Tally {
	tally := report.Tally{Routes: a.planned.reached.Have, RoutesWanted: a.planned.reached.Want, SessionsWanted: len(a.planned.plan.BGP.Sessions)}
	for _, want := range a.planned.plan.BGP.Sessions {
		i := slices.IndexFunc(a.routers.sessions, func(s bgp.SessionState) bool {
			return s.Router == want.Session.Router && s.Addr == want.Session.RouterAddr
		})
		cause := bgp.Connecting
		switch up := i >= 0 && a.routers.sessions[i].Up; {
		case up && a.told(want, a.routers.sessions[i]):
			tally.Sessions++
			continue
		case up:
			tally.Lacking++
			cause = lb.CauseLacksPodCIDRs
		case i >= 0:
			cause = cmp.Or(a.routers.sessions[i].Cause, cause)
		}
		tally.Down = append(tally.Down, lb.DownSession{Router: want.Session.Router, Peer: want.Session.RouterAddr.String(), Cause: string(cause)})
		if a.routers.down[want.Session.RouterAddr] {
			tally.PassedBy++
		}
	}
	tally.CutOff = a.inputs.Inventory != nil && a.inputs.Inventory.PodNetwork.Mode == inventory.ModeFabric && cutOff(a.routers.sessions, time.Now())
	return tally
}

// cutOff reports whether all sessions are down, and have been for so long that no router
// keeps a route of this machine's.
func cutOff(states []bgp.SessionState, now time.Time) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s bgp.SessionState) bool {
		return s.Up || now.Sub(s.Since) < cutOffAfter
	})
}

func (a *Agent) told(want bgp.SessionConfig, have bgp.SessionState) bool {
	for _, cidr := range a.inputs.Self.PodCIDRs {
		_, told := slices.BinarySearchFunc(have.Announced, cidr, netip.Prefix.Compare)
		if !told && want.Advertisements.Has(advertise.Advertisement{Prefix: cidr}) {
			return false
		}
	}
	return true
}

// publish sets the present status as the one that is shown.
func (a *Agent) publish() {
	status := &report.Status{
		Place: report.Place{Node: a.o.NodeName},
		State: report.State{
			WaitingFor: a.waiting.what, Ready: a.planned.once, FromDisk: a.planned.once && !a.known.live, WatchesNodes: a.sources.WatchesNodes(), Unread: a.reporting.unread.Sentences(),
			Draining: a.phase.Draining, Withdrawn: a.phase.Withdrawn, Condition: a.tally().Counts().Numbers(),
		},
		Lists: report.Lists{Links: a.outside.links.Status()},
	}
	of := report.Basis{Settings: a.reporting.settings, Plan: a.planned.plan, Offers: a.inputs.Passed, OnLinks: a.outside.links.Refusals(), Reached: a.planned.reached}
	of.Overdue, of.Lost = a.kubeProxy.gate.WithoutRules()
	status.ProxyHealthy, _ = a.kubeProxy.health.State()
	if a.inputs.Inventory != nil {
		status.Inventory, status.Rack = a.inputs.Inventory.Name, a.inputs.Self.Rack
		if m, err := a.inputs.Machine(); err == nil {
			status.Machine, status.MachineState = m.Name, string(m.State)
		}
	}
	a.reporting.board.Show(status, of)
}

// tellUnread logs the objects that are not read, where they have changed.
func (a *Agent) tellUnread() {
	now := a.sources.Unread()
	if now == a.reporting.unread {
		return
	}
	for _, what := range now.Sentences() {
		if !slices.Contains(a.reporting.unread.Sentences(), what) {
			a.o.Log.Error("cannot read what a newer version stored; what was known before stays in force", "err", what)
		}
	}
	if now == (lb.Unread{}) {
		a.o.Log.Info("can read all that is stored again")
	}
	a.reporting.unread = now
}
