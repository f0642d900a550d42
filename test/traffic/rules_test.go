package traffic

import (
	"context"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
)

// rulesMissed is how soon a machine leaves its VIPs to others once kube-proxy's rules are gone: four looks, and a pass of its
// agent.
const rulesMissed = 10 * time.Second

// TestWhatClientsLoseWithTheRulesOfAMachineIsOverInSeconds takes kube-proxy's rules from a machine under clients. The routers send it
// a part of what is new until it withdraws; nothing is lost after that.
func TestWhatClientsLoseWithTheRulesOfAMachineIsOverInSeconds(t *testing.T) {
	l := story.Shared(t)
	vips, probes := localClients(t, l, "flushed")
	t.Cleanup(func() { must(t, l.WriteRulesAnew(context.Background())) })

	must(t, l.FlushRules(t.Context(), "w1"))
	flushed := time.Now()
	story.Announced(t, l, vips, "w2", "w3", "w4")
	for vip, probe := range probes {
		must(t, probe.Steady(t.Context(), 5*time.Second))
		r := probe.Stop()
		t.Logf("%s: %s", vip, r)
		if after := r.LastLoss.Sub(flushed); r.Lost > 0 && after > rulesMissed {
			t.Errorf("%s: the last request was lost %s after the rules, want at most %s", vip, after, rulesMissed)
		}
	}
	must(t, l.WriteRulesAnew(t.Context()))
	story.Announced(t, l, vips)
}
