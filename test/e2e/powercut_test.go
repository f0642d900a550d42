package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

// holdTime is that of the lab's sessions.
const holdTime = 3 * time.Second

func TestAMachineThatFallsSilentIsOutOfTheWayAfterTheHoldTime(t *testing.T) {
	l := shared(t)
	web(t, l, "power", 4)
	// Local: a machine serves its own pods alone. With Cluster, others would go on
	// sending to the dead one's pods until Kubernetes notices.
	service := lab.LoadBalancer("power", "power")
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := expose(t, l, service)
	announced(t, l, vips)
	probe := probing(t, l, vips[0], 100)

	cut := time.Now()
	t.Cleanup(func() { l.ReviveMachine(context.Background(), "w4") }) // when the story broke off
	must(t, l.KillMachine(t.Context(), "w4"))
	announced(t, l, vips, "w1", "w2", "w3")
	steady(t, probe, 2*time.Second)
	r := probe.Stop()
	t.Logf("%s", r)
	if r.Lost == 0 {
		t.Error("nothing was lost: the machine cannot have been dead")
	}
	if after := r.LastLoss.Sub(cut); after > holdTime+time.Second {
		t.Errorf("the last request was lost %s after the power cut, want at most the hold time of %s and a little", after, holdTime)
	}

	must(t, l.ReviveMachine(t.Context(), "w4"))
	announced(t, l, vips) // power is back, and so is the machine
	must(t, l.WaitFabric(t.Context()))
}
