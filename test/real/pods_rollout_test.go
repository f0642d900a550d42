package real

import (
	"context"
	"testing"
)

// TestARolloutLosesNoNewConnection replaces, scales and drains pods, of a Deployment and of a
// DaemonSet, while each request is a connection of its own. It is the lab's story, see
// test/e2e, with kubelets, containers and readiness probes as they are.
func TestARolloutLosesNoNewConnection(t *testing.T) {
	l, _ := installed(t)
	const requests, rate = 6000, 40 // of each Service; a second, of each of its VIPs
	r := l.NewRollouts()
	t.Cleanup(func() {
		if err := r.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must(t, r.Begin(t.Context(), rate))
	must(t, r.Run(t.Context(), requests))
	for _, report := range r.End() {
		t.Log(report)
		if err := report.Err(); err != nil {
			t.Error(err)
		}
	}
}
