package traffic

import (
	"context"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
)

// holdTime is that of the lab's sessions.
const holdTime = 3 * time.Second

func TestAMachineThatFallsSilentIsOutOfTheWayAfterTheHoldTime(t *testing.T) {
	l := story.Shared(t)
	// Local: with Cluster, others would go on sending to the dead one's pods until Kubernetes notices.
	vips, probes := localClients(t, l, "power")
	t.Cleanup(func() { l.ReviveMachine(context.Background(), "w4") }) // when the story broke off
	must(t, l.KillMachine(t.Context(), "w4"))
	cut := time.Now()
	story.Announced(t, l, vips, "w1", "w2", "w3")
	for vip, probe := range probes {
		must(t, probe.Steady(t.Context(), 2*time.Second))
		r := probe.Stop()
		t.Logf("%s: %s", vip, r)
		if r.Lost == 0 {
			t.Errorf("%s: nothing was lost: the machine cannot have been dead", vip)
		}
		if after := r.LastLoss.Sub(cut); after > holdTime+5*time.Second {
			t.Errorf("%s: the last request was lost %s after the power cut, want at most the hold time of %s and a little", vip, after, holdTime)
		}
	}

	must(t, l.ReviveMachine(t.Context(), "w4"))
	story.Announced(t, l, vips) // power is back, and so is the machine
	must(t, l.WaitFabric(t.Context()))
}
