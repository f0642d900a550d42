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
// agent runs there meanwhile. The others announce it, and the client loses no request.
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

	probes := map[netip.Addr]*lab.Prober{}
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
	story.NoneLost(t, probes)
}

// waitsForRules waits until a machine's agent says that it announces the VIPs once its
// kube-proxy has the rules for them.
func waitsForRules(t *testing.T, l *lab.Lab, machine string, vips []netip.Addr) {
	t.Helper()
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		text, err := l.AgentStatus(ctx, machine)
		if err != nil {
			return err
		}
		var status struct {
			Refusals []struct{ VIP, Reason string }
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		for _, vip := range vips {
			if !slices.Contains(status.Refusals, struct{ VIP, Reason string }{vip.String(), "ProxyRulesPending"}) {
				return fmt.Errorf("%s says of what it does not announce: %v", machine, status.Refusals)
			}
		}
		return nil
	}))
}
