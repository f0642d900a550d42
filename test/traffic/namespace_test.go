package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestAMoveToAnotherNamespaceAndBackLosesNoRequest moves Plinth as the guide does with kustomize: the new
// agents wait beside the old ones, whose rights are gone by then, and all of them change over at once. Their
// sessions have a password, which they read in the new namespace.
func TestAMoveToAnotherNamespaceAndBackLosesNoRequest(t *testing.T) {
	l := story.Shared(t)
	story.ForgetMove(t, l)
	story.Web(t, l, "moved", 4)
	local := lab.LoadBalancer("moved-local", "moved")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := slices.Concat(story.Expose(t, l, lab.LoadBalancer("moved", "moved")), story.Expose(t, l, local))
	must(t, l.SetPassword(t.Context(), "tell-nobody"))
	story.InForce(t, l, strings.Replace(lab.Inventory(l.Topology), "    holdTime: 3s\n",
		"    holdTime: 3s\n    passwordFrom: {secret: "+lab.PasswordSecret+", key: "+lab.PasswordKey+"}\n", 1))
	sessionsUp(t, l)
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, requestRate)
	}
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error { // on a lab that has just begun
		nodes, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNetworkUnavailable }) {
				return fmt.Errorf("node %s has no network yet: %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	}))
	before := story.Placed(t, l)

	for _, step := range []struct{ from, to string }{{lab.PlinthNamespace, story.Elsewhere}, {story.Elsewhere, lab.PlinthNamespace}} {
		story.Move(t, l, step.from, step.to)
		sessionsUp(t, l)
		if d := cmp.Diff(before, story.Placed(t, l)); d != "" {
			t.Errorf("from %s to %s: %s", step.from, step.to, d)
		}
		story.PauseFor(t, 3*time.Second)
	}
	story.NoneLost(t, probes)
}

// sessionsUp waits until every agent has all its sessions, some at least.
func sessionsUp(t *testing.T, l *lab.Lab) {
	t.Helper()
	must(t, lab.Within(t.Context(), 60*time.Second, func(ctx context.Context) error {
		for _, m := range l.Topology.Machines() {
			sessions, err := l.Sessions(ctx, m.Name)
			if err != nil || len(sessions) == 0 {
				return fmt.Errorf("%s: %d sessions, %w", m.Name, len(sessions), err)
			}
			for _, s := range sessions {
				if !s.Up {
					return fmt.Errorf("%s: %+v", m.Name, s)
				}
			}
		}
		return nil
	}))
}
