package traffic

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// rulesBound is for how long a VIP waits for kube-proxy's rules at most, and boundSkew what a machine may be late by: to
// ask once more, to announce, and for the router to tell.
const (
	rulesBound = 45 * time.Second
	boundSkew  = 5 * time.Second
	// ownWord is by when kube-proxy says itself that it does not serve, once the bound is over: a minute after the change that it did
	// not carry out, and the agent asks every 2 s, and believes the third answer.
	ownWord = 30 * time.Second
)

// TestAMachineWhoseKubeProxyFailsItsFirstSyncLeavesVIPsToOthersWithinTheBound has the first sync of a kube-proxy fail, as where a
// limit is reached, after which it makes no other until some Service or EndpointSlice changes. The others announce what is there and what is
// new, and that machine does once a sync has succeeded. A client loses nothing but what a router moves.
func TestAMachineWhoseKubeProxyFailsItsFirstSyncLeavesVIPsToOthersWithinTheBound(t *testing.T) {
	const late = "w1"
	others := []string{"w2", "w3", "w4"}
	l := story.Shared(t)
	t.Cleanup(func() { must(t, l.WriteRulesAnew(context.Background())) })
	story.Web(t, l, "synced", 4)
	before := story.Expose(t, l, lab.LoadBalancer("before", "synced"))
	story.Announced(t, l, before)

	mend := failing(t, l, late, true)
	begun := time.Now()
	vips := story.Expose(t, l, lab.LoadBalancer("synced", "synced"))
	story.Announced(t, l, slices.Concat(before, vips), others...)
	waitsForRules(t, l, late, vips)
	must(t, lab.Within(t.Context(), 10*time.Second, func(ctx context.Context) error {
		return errors.Join(story.InStatus(ctx, l, late, "ProxyRulesLost"), story.BrokenAt(ctx, l, "node/"+late, "fabric", "ProxyRulesLost"))
	}))
	moves, probes := story.RouterMoves(t, l, slices.Concat(before, vips)), map[netip.Addr]*lab.Prober{}
	for _, vip := range slices.Concat(before, vips) {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, requestRate)
	}
	mend()
	must(t, l.WriteRulesAnew(t.Context()))
	story.Announced(t, l, slices.Concat(before, vips))
	if took := time.Since(begun); took > rulesBound {
		t.Fatalf("the machine was to get its rules within the bound, and that took %v", took)
	}
	story.PauseFor(t, 2*time.Second)
	story.NoneLostButByMoves(t, probes, moves())
	must(t, lab.Within(t.Context(), 35*time.Second, func(ctx context.Context) error { return story.AllWell(ctx, l) }))
}

// TestAVIPIsAnnouncedWithoutRulesOnceTheBoundIsOver has the syncs of a kube-proxy fail that has rules for other VIPs, and measures the
// bound. Once kube-proxy says itself that it does not serve, the machine announces no VIP.
func TestAVIPIsAnnouncedWithoutRulesOnceTheBoundIsOver(t *testing.T) {
	const late = "w1"
	l := story.Shared(t)
	t.Cleanup(func() { must(t, l.WriteRulesAnew(context.Background())) })
	story.Web(t, l, "bounded", 4)
	failing(t, l, late, true)() // from now on it can be made to fail
	story.Announced(t, l, story.Expose(t, l, lab.LoadBalancer("before", "bounded")))

	mend := failing(t, l, late, false)
	begun := time.Now()
	vips := story.Expose(t, l, lab.LoadBalancer("bounded", "bounded"))
	story.Announced(t, l, vips, "w2", "w3", "w4")
	must(t, lab.Within(t.Context(), rulesBound+boundSkew, func(ctx context.Context) error {
		status, err := rulesOf(ctx, l, late)
		if err != nil {
			return err
		}
		return hasAll(status.Overdue, vips, "ProxyRulesOverdue")
	}))
	story.Announced(t, l, vips)
	took := time.Since(begun)
	t.Logf("announced without rules after %v", took.Round(100*time.Millisecond))
	if took < rulesBound {
		t.Errorf("announced without rules after %v, want %v at least", took, rulesBound)
	}

	must(t, lab.Within(t.Context(), ownWord, func(ctx context.Context) error {
		status, err := rulesOf(ctx, l, late)
		if err != nil {
			return err
		}
		return errors.Join(hasAll(status.Refusals, vips, "ProxyUnhealthy"), story.InStatus(ctx, l, late, "ProxyUnhealthy"),
			story.BrokenAt(ctx, l, "node/"+late, "fabric", "ProxyUnhealthy"))
	}))
	story.Announced(t, l, vips, "w2", "w3", "w4")
	mend()
	must(t, lab.Within(t.Context(), 35*time.Second, func(ctx context.Context) error { return story.AllWell(ctx, l) })) // kube-proxy tries again after 30 s
}

// failing has each sync of a machine's kube-proxy fail until mend is called, with anew from the start of a new one on.
func failing(t *testing.T, l *lab.Lab, machine string, anew bool) (mend func()) {
	t.Helper()
	undo, err := l.FailRules(t.Context(), machine, anew)
	t.Cleanup(func() { must(t, undo()) })
	must(t, err)
	return func() { must(t, undo()) }
}
