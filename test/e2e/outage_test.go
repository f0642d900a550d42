package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

func TestAnAgentThatRestartsWhileTheAPIServerIsDownCarriesOnFromItsDisk(t *testing.T) {
	l := shared(t)
	web(t, l, "outage", 4)
	vips := expose(t, l, lab.LoadBalancer("outage", "outage"))
	announced(t, l, vips)
	probe := probing(t, l, vips[0], 100)

	t.Cleanup(func() { // before what needs an API server to clean up
		if _, ok := l.Process("kube-apiserver"); !ok {
			l.StartAPIServer(context.Background())
		}
	})
	must(t, l.StopAPIServer(t.Context()))
	must(t, l.StopAgent(t.Context(), "w1", syscall.SIGTERM))
	must(t, l.StartAgentAgain("w1"))
	steady(t, probe, 8*time.Second) // longer than hold time and the agent's start together
	announced(t, l, vips)
	if r := probe.Stop(); r.Lost > 0 {
		t.Errorf("an agent was restarted without an API server: %s", r)
	}
	must(t, l.StartAPIServer(t.Context()))
	must(t, l.WaitReady(t.Context(), time.Minute))
	must(t, l.WaitFabric(t.Context()))
	announced(t, l, vips)
}
