package labs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestANewClusterWhoseRouterIsOffRunsPodsWhereNoRouterCarriesThem: the router is off from
// the start, or not configured yet.
func TestANewClusterWhoseRouterIsOffRunsPodsWhereNoRouterCarriesThem(t *testing.T) {
	for _, mode := range []string{"direct", "overlay"} {
		t.Run(mode, func(t *testing.T) {
			l := story.Lab(t, story.BesideName(), lab.Homelab())
			must(t, l.StopRouter(t.Context(), "gateway"))
			must(t, errors.Join(l.BuildPlinth(t.Context()), l.GrantRights(t.Context()), l.ApplyInventory(t.Context(), story.InMode(l, mode)), l.StartCCM(t.Context())))
			for _, m := range l.Topology.Machines() {
				must(t, l.StartAgent(t.Context(), m.Name))
			}
			must(t, l.WaitReady(t.Context(), 90*time.Second))
			story.Web(t, l, "mesh", 3)
			story.Mesh(t, l, story.Anywhere).Stop()
			// The stock controller tries again every ten seconds.
			must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error { return agentsSay(ctx, l, "SessionsDown") }))
			before := failedRoutes(t, l)
			story.PauseFor(t, 25*time.Second)
			if after := failedRoutes(t, l); after != before {
				t.Errorf("%d Events FailedToCreateRoute have become %d in 25 s", before, after)
			}
			must(t, agentsSay(t.Context(), l, "SessionsDown"))
		})
	}
}

// failedRoutes counts how often the route controller has told of a Node that it has no
// network, though its agent has spoken.
func failedRoutes(t *testing.T, l *lab.Lab) (times int) {
	t.Helper()
	all, err := l.Kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedToCreateRoute"})
	must(t, err)
	for _, e := range all.Items {
		if strings.Contains(e.Message, "sessions") {
			times += int(max(e.Count, 1))
		}
	}
	t.Logf("%d Events FailedToCreateRoute", times)
	return times
}

// agentsSay checks the reason of every Node's condition FabricReady.
func agentsSay(ctx context.Context, l *lab.Lab, reason string) (wrong error) {
	for _, m := range l.Topology.Machines() {
		n, err := l.Node(ctx, m.Name)
		if err != nil {
			return err
		}
		var said corev1.NodeCondition
		for _, c := range n.Status.Conditions {
			if c.Type == "plinth.dev/FabricReady" {
				said = c
			}
		}
		if said.Reason != reason {
			wrong = errors.Join(wrong, fmt.Errorf("the agent of %s says %s: %s", m.Name, said.Reason, said.Message))
		}
	}
	return wrong
}
