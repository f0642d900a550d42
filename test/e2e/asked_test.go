package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestWhatAgentsAloneKnowIsFoundByAskingThem has plinth ask agents through the API server and the kubelets of
// their machines, while all is well and while something is wrong that nobody else knows of.
func TestWhatAgentsAloneKnowIsFoundByAskingThem(t *testing.T) {
	const hung, dead = "w1", "w4"
	l := story.Shared(t)
	hide, err := l.ShowAgents(t.Context())
	t.Cleanup(func() {
		if hide != nil {
			must(t, hide(context.Background()))
		}
	})
	must(t, err)
	story.Web(t, l, "asked", 4)
	vips := story.Expose(t, l, lab.LoadBalancer("asked", "asked"))
	story.Announced(t, l, vips)
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		return errors.Join(story.Holds(ctx, l, "svc/default/asked"), story.Holds(ctx, l, "node/"+hung), story.Holds(ctx, l, "router/"+l.Topology.Routers[0].Name),
			allTold(ctx, l, vips[0].String()))
	}))

	must(t, l.SignalProxy(hung, syscall.SIGSTOP))
	goOn := func() {
		if err := l.SignalProxy(hung, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(goOn)
	story.Expose(t, l, lab.LoadBalancer("pending", "asked"))
	const announced = "announced"
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		return errors.Join(story.BrokenAt(ctx, l, "svc/default/pending", announced, hung+": "),
			story.BrokenAt(ctx, l, "svc/default/pending", announced, "ProxyRulesPending"))
	}))
	goOn()

	must(t, l.StopAgent(t.Context(), dead, syscall.SIGKILL))
	t.Cleanup(func() {
		must(t, l.StartAgent(context.Background(), dead))
		must(t, l.WaitSessions(context.Background(), dead))
	})
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		var sessions diagnose.Details[diagnose.SessionDetail]
		if err := l.Ask(ctx, &sessions, "status", "sessions"); err != nil {
			return err
		}
		if len(sessions.NotAsked) != 1 || sessions.NotAsked[0].Node != dead || !strings.Contains(sessions.NotAsked[0].Why, "refused") {
			return fmt.Errorf("not asked: %+v", sessions.NotAsked)
		}
		return nil
	}))
}

// allTold says what the tables of plinth status lack of a VIP that all machines announce.
func allTold(ctx context.Context, l *lab.Lab, vip string) error {
	var sessions diagnose.Details[diagnose.SessionDetail]
	var vips diagnose.Details[diagnose.VIPDetail]
	var nodes diagnose.Details[diagnose.NodeDetail]
	var routes diagnose.Details[diagnose.RouteDetail]
	err := errors.Join(l.Ask(ctx, &sessions, "status", "sessions"), l.Ask(ctx, &vips, "status", "vips"),
		l.Ask(ctx, &nodes, "status", "nodes"), l.Ask(ctx, &routes, "status", "routes"))
	if err != nil {
		return err
	}
	var machines []string
	for _, m := range l.Topology.Machines() {
		machines = append(machines, m.Name)
	}
	i := slices.IndexFunc(vips.Items, func(v diagnose.VIPDetail) bool { return v.VIP.String() == vip })
	switch {
	case len(sessions.NotAsked) > 0 || len(sessions.Items) < len(machines) || slices.ContainsFunc(sessions.Items, func(s diagnose.SessionDetail) bool { return !s.Up }):
		return fmt.Errorf("sessions: %+v", sessions)
	case i < 0 || !slices.Equal(vips.Items[i].Announced, machines):
		return fmt.Errorf("of %s: %+v", vip, vips)
	case len(routes.Items) != len(machines) || slices.ContainsFunc(routes.Items, func(r diagnose.RouteDetail) bool { return r.Held != r.Wanted }):
		return fmt.Errorf("routes: %+v", routes)
	}
	for _, n := range nodes.Items {
		if !n.Asked || n.SessionsUp == 0 {
			return fmt.Errorf("node: %+v", n)
		}
	}
	return nil
}
