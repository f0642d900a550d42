package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// ending are the machines whose pods end in these stories, by router: one behind FRR, one
// behind BIRD.
var ending = map[string]string{"w1": "tor-r1", "w3": "tor-r2"}

// TestAMachineWhoseLastPodTerminatesIsTheWorseWayAndLosesNoRequest: its pod serves on for a
// while, as one with a preStop hook does, and ends before the API server knows.
func TestAMachineWhoseLastPodTerminatesIsTheWorseWayAndLosesNoRequest(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "ending")
	moves, probes := story.RouterMoves(t, l, vips), map[*lab.Prober]netip.Addr{}
	for _, vip := range vips {
		probes[story.Probing(t, l, vip, requestRate)] = vip
		probes[story.ProbingURL(t, l, lab.URL(vip, lab.WebPort)+story.LongAnswers, requestRate)] = vip
	}
	for m := range ending {
		cordon(t, l, m) // no other pod comes to it
	}
	endPodsOn(t, l, "ending", "6s")

	// Both routers still know the way through the machine, and none takes it.
	story.Announced(t, l, vips, "w2", "w4")
	for m, r := range ending {
		for _, vip := range vips {
			if !story.Knows(t, l, r, m, vip) {
				t.Errorf("%s has forgotten %s through %s, where a pod still serves", r, vip, m)
			}
			if says := demoted(t, l, m); says[lab.VIPPrefix(vip).String()] != "LocalEndpointsTerminating" {
				t.Errorf("%s says that it is the worse way to %v, and not to %s", m, says, vip)
			}
		}
	}
	story.ToldBy(t, l, vips, "w2", "w4") // they have ended
	story.PauseFor(t, time.Second)
	moved := moves()
	for p, vip := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		if lost := r.NotCut(moved[vip]); len(lost) > 0 || r.Sent < 3*requestRate {
			t.Errorf("%s: %d requests were lost that no router's move had cut off: %s", vip, len(lost), r)
		}
	}
}

// TestPodsThatEndInARollingRestartLoseNoRequest has two pods move to the two other
// machines, again and again.
func TestPodsThatEndInARollingRestartLoseNoRequest(t *testing.T) {
	l := story.Shared(t)
	rolling := lab.Web{Name: "rolling", Replicas: 2, Linger: 6 * time.Second}
	story.Webs(t, l, rolling)
	service := lab.LoadBalancer("rolling", "rolling")
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := story.Expose(t, l, service)
	moves, probes := story.RouterMoves(t, l, vips), map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, requestRate)
	}
	for range 4 {
		must(t, l.RestartWeb(t.Context(), rolling))
	}
	story.NoneLostButByMoves(t, probes, moves())
}

// requestRate is how many requests a second the client sends to each VIP.
const requestRate = 50

// cordon keeps new pods from a machine for the length of a story.
func cordon(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	set := func(ctx context.Context, unschedulable bool) error {
		_, err := l.Kube.CoreV1().Nodes().Patch(ctx, machine, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable), metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func() {
		if err := set(context.Background(), false); err != nil {
			t.Error(err)
		}
	})
	must(t, set(t.Context(), true))
}

// endPodsOn deletes a Deployment's pods on the machines that are ending. They serve on for
// so long.
func endPodsOn(t *testing.T, l *lab.Lab, name, linger string) {
	t.Helper()
	pods, err := l.Pods(t.Context(), name)
	must(t, err)
	for _, p := range pods {
		if ending[p.Spec.NodeName] == "" {
			continue
		}
		must(t, l.AnnotatePod(t.Context(), p.Name, kubelet.LingerAnnotation, linger))
		must(t, l.Kube.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name, metav1.DeleteOptions{}))
	}
}

// demoted are the prefixes that a machine's agent says it announces as the worse way, with the reason of each.
func demoted(t *testing.T, l *lab.Lab, machine string) map[string]string {
	t.Helper()
	text, err := l.AgentStatus(t.Context(), machine)
	must(t, err)
	var status struct {
		Demoted []struct{ Prefix, Reason string }
	}
	must(t, json.Unmarshal([]byte(text), &status))
	reasons := map[string]string{}
	for _, d := range status.Demoted {
		reasons[d.Prefix] = d.Reason
	}
	return reasons
}
