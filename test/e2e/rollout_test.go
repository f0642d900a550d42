package e2e

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestARolloutLosesNoConnectionAsKernelsJudgeIt replaces the pods of a DaemonSet, one machine after the other, while a
// client opens connections to them: nothing is refused, reset or unreachable, and no SYN is sent again. Each rack keeps
// a machine that announces the VIP, so routers never send to each other what is for it (see lab.TCPProber). How long
// answers take is a figure, and told: package traffic holds it.
func TestARolloutLosesNoConnectionAsKernelsJudgeIt(t *testing.T) {
	l := story.Shared(t)
	rolled := lab.Web{Name: "rolled", Everywhere: true, ReadyAfter: 2 * time.Second, Linger: 10 * time.Second}
	story.Webs(t, l, rolled)
	var vips []netip.Addr
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal} {
		s := lab.LoadBalancer("rolled-"+strings.ToLower(string(policy)), rolled.Name)
		s.Spec.ExternalTrafficPolicy = policy
		exposed := story.Expose(t, l, s)
		t.Logf("%s: %v", policy, exposed)
		vips = append(vips, exposed...)
	}
	story.Announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}

	p, err := l.ProbeTCP(t.Context(), 40, vips...)
	must(t, err)
	t.Cleanup(func() {
		if _, err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must(t, l.RestartWeb(t.Context(), rolled))
	story.Announced(t, l, vips) // by the last one, too
	story.NoneHarmed(t, p, len(vips))
}
