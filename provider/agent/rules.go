package agent

import (
	"context"
	"log/slog"
	"time"

	"plinth.dev/plinth/lb/advertise"
)

// admit applies the gate to the inputs.
func (a *Agent) admit(now time.Time) {
	told := map[string]int{}
	tell := func(level slog.Level, what string, p advertise.Passage) {
		if told[what]++; told[what] <= refusalsTold {
			a.o.Log.Log(context.Background(), level, what, "service", p.Question.Service, "vip", p.Question.VIP, "after", p.After.Round(time.Millisecond))
		}
	}
	for _, passage := range a.kubeProxy.gate.Apply(&a.inputs, now) {
		switch {
		case passage.Evidence == advertise.Gone:
			tell(slog.LevelWarn, "lost kube-proxy's rules for a VIP", passage)
			continue
		case passage.Question.Lost:
			tell(slog.LevelInfo, "found kube-proxy's rules for a VIP again", passage)
			continue
		case passage.Evidence == advertise.Overdue:
			tell(slog.LevelWarn, "announcing a VIP without kube-proxy's rules for it", passage)
		}
		a.reporting.board.WaitedForRules(passage.Evidence, passage.After)
	}
	for what, n := range told {
		if n > refusalsTold {
			a.o.Log.Warn(what+", and more of them; see /status", "all", n)
		}
	}
}
