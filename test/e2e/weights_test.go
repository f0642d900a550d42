package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

func TestMachinesGetTrafficByTheNumberOfTheirReadyPods(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "heavy", 12) // three on each machine
	service := lab.LoadBalancer("heavy", "heavy")
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := story.Expose(t, l, service)
	story.InForce(t, l, story.WithPool(l, "advertise: {weighted: true}"))
	story.Announced(t, l, vips)

	ready := func(machine string, want int) {
		t.Helper()
		pods, err := l.Pods(t.Context(), "heavy")
		must(t, err)
		for _, p := range pods {
			if p.Spec.NodeName == machine {
				must(t, l.AnnotatePod(t.Context(), p.Name, kubelet.ReadyAnnotation, fmt.Sprint(want > 0)))
				want--
			}
		}
	}
	proportion := func(w1, w2 int) {
		t.Helper()
		for _, vip := range vips {
			must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
				have, err := l.Shares(ctx, "tor-r1", vip)
				a, b := have["w1"], have["w2"]
				if err == nil && (a == 0 || b == 0 || !near(a*w2, b*w1)) {
					err = fmt.Errorf("the kernel of tor-r1 has the shares %v for %s, want %d to %d", have, vip, w1, w2)
				}
				return err
			}))
		}
	}
	proportion(3, 3)
	before := story.Sessions(t, l)
	ready("w2", 1)
	proportion(3, 1)
	ready("w1", 2)
	ready("w2", 3)
	proportion(2, 3)
	if d := cmp.Diff(before, story.Sessions(t, l)); d != "" {
		t.Errorf("sessions were lost over a change of weights (-before +after):\n%s", d)
	}
}

// near reports whether two shares are the same but for what rounding them costs.
func near(a, b int) bool { return 10*max(a, b) <= 11*min(a, b) }
