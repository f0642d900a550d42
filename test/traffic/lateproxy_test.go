package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestAMachineWhoseKubeProxyHangsAnnouncesAVIPOnceItHasTheRules, and not before, whichever
// agent runs there meanwhile. The others announce it, and the client loses no
// request but those that a router moves.
func TestAMachineWhoseKubeProxyHangsAnnouncesAVIPOnceItHasTheRules(t *testing.T) {
	const late = "w1"
	l := story.Shared(t)
	story.Web(t, l, "late", 4)
	goOn := func() {
		if err := l.SignalProxy(late, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	story.Announced(t, l, story.Expose(t, l, lab.LoadBalancer("early", "late"))) // each kube-proxy works
	must(t, l.SignalProxy(late, syscall.SIGSTOP))
	t.Cleanup(goOn)
	vips := story.Expose(t, l, lab.LoadBalancer("late", "late"))
	others := []string{"w2", "w3", "w4"}
	story.Announced(t, l, vips, others...)
	waitsForRules(t, l, late, vips)

	moves, probes := story.RouterMoves(t, l, vips), map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, requestRate)
	}
	must(t, l.StopAgent(t.Context(), late, syscall.SIGKILL))
	must(t, l.StartAgent(t.Context(), late))
	waitsForRules(t, l, late, vips)
	story.Announced(t, l, vips, others...)

	goOn()
	story.Announced(t, l, vips)
	story.PauseFor(t, 2*time.Second)
	story.NoneLostButByMoves(t, probes, moves()) // the late machine comes to be one of those that routers choose from
}

// waitsForRules waits until a machine's agent says that it announces the VIPs once its
// kube-proxy has the rules for them.
func waitsForRules(t *testing.T, l *lab.Lab, machine string, vips []netip.Addr) {
	t.Helper()
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		status, err := rulesOf(ctx, l, machine)
		if err != nil {
			return err
		}
		return hasAll(status.Refusals, vips, "ProxyRulesPending")
	}))
}

// withReason is a VIP, and why a machine does not announce it, or announces it without rules.
type withReason struct{ VIP, Reason string }

// rulesStatus is what an agent's /status says of VIPs and kube-proxy's rules.
type rulesStatus struct {
	Refusals []withReason // not announced, for other reasons, too
	Overdue  []withReason // announced without rules
}

// rulesOf asks a machine's agent.
func rulesOf(ctx context.Context, l *lab.Lab, machine string) (status rulesStatus, err error) {
	text, err := l.AgentStatus(ctx, machine)
	if err != nil {
		return status, err
	}
	return status, json.Unmarshal([]byte(text), &status)
}

// hasAll says which of some VIPs a list does not have for a reason.
func hasAll(list []withReason, vips []netip.Addr, reason string) error {
	for _, vip := range vips {
		if !slices.Contains(list, withReason{vip.String(), reason}) {
			return fmt.Errorf("%s is not there with %s: %v", vip, reason, list)
		}
	}
	return nil
}
