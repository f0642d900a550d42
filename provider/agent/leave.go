package agent

import (
	"context"
	"log/slog"
	"time"
)

// leave ends the sessions in the way that was chosen.
func (a *Agent) leave(ctx context.Context, doubt <-chan struct{}) error {
	if a.o.WithdrawOnStop && a.planned {
		a.drainFully(ctx, doubt)
		ctx, cancel := context.WithTimeout(ctx, leaveWithin)
		defer cancel()
		slog.Info("stopping", "announcements", "withdrawn")
		return a.o.Speaker.Stop(ctx, "the agent was stopped")
	}
	a.signOfLife()
	a.endSaving()
	<-a.saved // lest it write older inputs over these
	if a.live {
		if err := a.disk.save(a.inputs); err != nil {
			slog.Warn("the state was not saved", "err", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	slog.Info("leaving", "announcements", "left to graceful restart")
	return a.o.Speaker.Leave(ctx)
}

// drainFully works on until everything is withdrawn. It ends a little after the drain
// should have, whatever keeps it: the Speaker withdraws what is left.
func (a *Agent) drainFully(ctx context.Context, doubt <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, a.o.DrainTime+leaveWithin)
	defer cancel()
	a.drain.asked = true
	for a.pass(ctx); !a.phase.Withdrawn; a.pass(ctx) {
		select {
		case <-a.dirty:
		case <-doubt:
			a.o.Table.Doubt()
		case <-a.timer.C:
			a.due = time.Time{}
		case <-ctx.Done():
			slog.Warn("the drain came to no end", "waiting for", a.waiting)
			return
		}
	}
}
