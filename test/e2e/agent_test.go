package e2e

import (
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

// holdTime is that of the lab's sessions.
const holdTime = 3 * time.Second

func TestAnAgentThatIsUpgradedLosesNoRequest(t *testing.T) {
	l := shared(t)
	web(t, l, "upgrade", 4)
	vips := expose(t, l, lab.LoadBalancer("upgrade", "upgrade"))
	announced(t, l, vips)
	probe := probing(t, l, vips[0], 100)
	for _, m := range []string{"w1", "w3"} { // one behind FRR, one behind BIRD
		must(t, l.StopAgent(t.Context(), m, syscall.SIGTERM))
		must(t, l.StartAgent(t.Context(), m))
	}
	must(t, l.WaitFabric(t.Context()))
	steady(t, probe, 2*time.Second)
	announced(t, l, vips)
	if r := probe.Stop(); r.Lost > 0 {
		t.Errorf("two agents were restarted: %s", r)
	}
}

func TestAnAgentThatIsKilledLosesRequestsUntilTheHoldTimeAtMost(t *testing.T) {
	l := shared(t)
	web(t, l, "crash", 4)
	vips := expose(t, l, lab.LoadBalancer("crash", "crash"))
	announced(t, l, vips)
	probe := probing(t, l, vips[0], 100)
	killed := time.Now()
	must(t, l.StopAgent(t.Context(), "w2", syscall.SIGKILL))
	must(t, l.StopAgent(t.Context(), "w4", syscall.SIGKILL))
	steady(t, probe, holdTime)
	r := probe.Stop()
	if r.Lost > 0 && r.LastLoss.Sub(killed) > holdTime+time.Second {
		t.Errorf("requests were lost for %s after two agents were killed: %s", r.LastLoss.Sub(killed), r)
	}
	must(t, l.StartAgent(t.Context(), "w2"))
	must(t, l.StartAgent(t.Context(), "w4"))
	must(t, l.WaitFabric(t.Context()))
	announced(t, l, vips)
}
