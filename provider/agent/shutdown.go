package agent

import (
	"context"
	"errors"
	"time"

	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/link"
	"plinth.dev/plinth/provider/agent/plan"
)

const (
	// shutdownWait is for how long an agent that is stopped waits for the word that its
	// machine shuts down: a kubelet says so and stops pods at the same moment.
	shutdownWait = time.Second
	// heardLately is more than the time between two bookmarks of a watch, a minute. An
	// API server that was silent for longer is away, and will not say it.
	heardLately = 90 * time.Second
)

// shutdown ends the sessions in the way that was chosen. A machine that shuts down has no
// agent that comes back soon: routers would keep sending to it for the restart time.
func (a *Agent) shutdown(ctx context.Context, kernelEvents <-chan struct{}) error {
	defer a.writeFinalState()
	if a.planned.once && (a.o.WithdrawOnStop || a.shutsDown(ctx, kernelEvents)) {
		a.drainFully(ctx, kernelEvents)
		ctx, cancel := context.WithTimeout(ctx, leaveWithin)
		defer cancel()
		a.o.Log.Info("stopping", "announcements", "withdrawn")
		return errors.Join(a.outside.links.Leave(ctx, 0), a.outside.speaker.Stop(ctx, "the agent was stopped"))
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	a.o.Log.Info("leaving", "announcements", "left to graceful restart")
	return errors.Join(a.outside.links.Leave(ctx, link.HandOver), a.outside.speaker.Leave(ctx))
}

// shutsDown reports whether the machine shuts down, by its kubelet's word.
func (a *Agent) shutsDown(ctx context.Context, kernelEvents <-chan struct{}) bool {
	said := func() bool {
		self, _ := a.sources.Self()
		return self.ShuttingDown
	}
	if said() || a.sources.SelfLastSeen() > a.grace.silence {
		return said()
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownWait)
	defer cancel()
	return a.workUntil(ctx, kernelEvents, said)
}

// writeFinalState writes the state that the process after this one needs.
func (a *Agent) writeFinalState() {
	var last *disk.Handover
	var in *plan.Inputs
	if a.planned.once {
		last = new(a.handover())
	}
	if a.known.live {
		in = &a.inputs
	}
	a.disk.saver.Finish(last, in)
}

// drainFully works on until everything is withdrawn. It ends a little after the drain
// should have, whatever keeps it: the Speaker withdraws what is left.
func (a *Agent) drainFully(ctx context.Context, kernelEvents <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, a.o.DrainTime+leaveWithin)
	defer cancel()
	a.drain.Asked = true
	if !a.workUntil(ctx, kernelEvents, func() bool { return a.phase.Withdrawn }) {
		a.o.Log.Warn("failed to end the drain in time", "pending", a.waiting.what)
	}
}

// workUntil makes passes until done, or until ctx ends: then it reports false.
func (a *Agent) workUntil(ctx context.Context, kernelEvents <-chan struct{}, done func() bool) bool {
	for a.pass(ctx); !done(); a.pass(ctx) {
		select {
		case <-a.dirty:
		case <-kernelEvents:
			a.outside.table.Invalidate()
		case <-a.schedule.timer.C:
			a.schedule.fired()
		case <-ctx.Done():
			return false
		}
	}
	return true
}
