package agent

import (
	"context"
	"log/slog"
	"time"
)

// leave ends the sessions in the way that was chosen. A machine that shuts down has no
// agent that comes back soon: routers would keep sending to it for the restart time.
func (a *Agent) leave(ctx context.Context, kernelEvents <-chan struct{}) error {
	defer a.lastWords()
	if self, _ := a.sources.selfNow(); (a.o.WithdrawOnStop || self.ShuttingDown) && a.planned {
		a.drainFully(ctx, kernelEvents)
		ctx, cancel := context.WithTimeout(ctx, leaveWithin)
		defer cancel()
		slog.Info("stopping", "announcements", "withdrawn")
		return a.o.Speaker.Stop(ctx, "the agent was stopped")
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	slog.Info("leaving", "announcements", "left to graceful restart")
	return a.o.Speaker.Leave(ctx)
}

// lastWords writes what the process after this one should know.
func (a *Agent) lastWords() {
	a.saver.stop()
	if a.planned {
		a.saver.writeSign(a.saver.disk.sign(a.drain.lasted(time.Now()), a.down))
	}
	if a.live {
		a.saver.writeInputs(a.inputs)
	}
}

// drainFully works on until everything is withdrawn. It ends a little after the drain
// should have, whatever keeps it: the Speaker withdraws what is left.
func (a *Agent) drainFully(ctx context.Context, kernelEvents <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, a.o.DrainTime+leaveWithin)
	defer cancel()
	a.drain.asked = true
	for a.pass(ctx); !a.phase.Withdrawn; a.pass(ctx) {
		select {
		case <-a.dirty:
		case <-kernelEvents:
			a.o.Table.Doubt()
		case <-a.schedule.timer.C:
			a.schedule.fired()
		case <-ctx.Done():
			slog.Warn("the drain came to no end", "waiting for", a.waiting)
			return
		}
	}
}
