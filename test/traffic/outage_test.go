package traffic

import (
	"context"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestAnAgentThatRestartsWhileTheAPIServerIsDownCarriesOnFromItsDisk(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "outage")
	settle := flood(t, l, vips)

	t.Cleanup(func() { // before what needs an API server to clean up
		if _, ok := l.Process("kube-apiserver"); !ok {
			l.StartAPIServer(context.Background())
		}
	})
	must(t, l.StopAPIServer(t.Context()))
	for _, m := range l.Topology.Machines() {
		must(t, l.StopAgent(t.Context(), m.Name, syscall.SIGTERM))
	}
	for _, m := range l.Topology.Machines() {
		must(t, l.StartAgentAgain(m.Name))
	}
	for _, m := range l.Topology.Machines() {
		must(t, l.WaitSessions(t.Context(), m.Name))
	}
	story.PauseFor(t, holdTime+time.Second)
	story.Announced(t, l, vips)
	for vip, r := range settle() {
		if r.Lost > 0 {
			t.Errorf("%s: every agent was restarted without an API server: %s", vip, r)
		}
	}
	must(t, l.StartAPIServer(t.Context()))
	must(t, l.WaitReady(t.Context(), time.Minute))
	must(t, l.WaitFabric(t.Context()))
	story.Announced(t, l, vips)
}

func TestWithoutAControllerAgentsRestartAndFollowTheEndpoints(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "headless")
	t.Cleanup(func() {
		if _, ok := l.Process("ccm"); !ok {
			if err := l.StartCCM(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	must(t, l.StopCCM(t.Context(), syscall.SIGKILL))
	settle := flood(t, l, vips)
	for _, m := range []string{"w1", "w3"} { // one behind FRR, one behind BIRD
		must(t, l.StopAgent(t.Context(), m, syscall.SIGTERM))
		must(t, l.StartAgent(t.Context(), m))
		must(t, l.WaitSessions(t.Context(), m))
	}
	story.PauseFor(t, holdTime+time.Second)
	story.Announced(t, l, vips)
	for vip, r := range settle() {
		if r.Lost > 0 {
			t.Errorf("%s: two agents were restarted without a controller: %s", vip, r)
		}
	}
	must(t, l.RemoveWeb(t.Context(), lab.Web{Name: "headless"}))
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip)) // nobody can serve it any more
	}
	must(t, l.RunWeb(t.Context(), lab.Web{Name: "headless", Replicas: 4}))
	story.Announced(t, l, vips)
}
