package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// untold is how soon it is looked for what agents are not to say: longer than they would take to find that rules are gone.
const untold = 10 * time.Second

// TestAServiceOfAnotherProxyIsAnnouncedAtOnceAndNeverOverdue has a label come, go, and come again, while kube-proxy serves all else.
func TestAServiceOfAnotherProxyIsAnnouncedAtOnceAndNeverOverdue(t *testing.T) {
	const name = "proxied"
	l := story.Shared(t)
	story.Web(t, l, name, 4)
	s := lab.LoadBalancer(name, name)
	s.Labels = map[string]string{lb.ServiceProxyLabel: "other"}
	vips := story.Expose(t, l, s)
	story.Announced(t, l, vips) // sooner than any VIP that waits for the bound
	exempt(t, l, vips, lb.ServedByOtherProxy)
	must(t, lab.Within(t.Context(), 10*time.Second, func(ctx context.Context) error {
		return errors.Join(story.InStatus(ctx, l, "default/"+name, "ServedByOtherProxy"), story.BrokenAt(ctx, l, "svc/default/"+name, "Service", "ServedByOtherProxy"))
	}))

	relabel(t, l, name, `{"metadata": {"labels": {"`+lb.ServiceProxyLabel+`": null}}}`)
	exempt(t, l, vips, "")
	story.Announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}

	relabel(t, l, name, `{"metadata": {"labels": {"`+lb.ServiceProxyLabel+`": ""}}}`)
	exempt(t, l, vips, lb.ServedByOtherProxy)
	story.PauseFor(t, untold)
	exempt(t, l, vips, lb.ServedByOtherProxy)
	story.Announced(t, l, vips)
}

// TestEndpointsThatKubeProxyDoesNotFollowAreToldApart labels the slices of a Service as those of headless ones are.
func TestEndpointsThatKubeProxyDoesNotFollowAreToldApart(t *testing.T) {
	const name = "unfollowed"
	l := story.Shared(t)
	story.Web(t, l, name, 4)
	vips := story.Expose(t, l, lab.LoadBalancer(name, name))
	story.Announced(t, l, vips)

	relabelSlices(t, l, name, `{"metadata": {"labels": {"`+lb.HeadlessLabel+`": ""}}}`)
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip))
	}
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		return errors.Join(story.InStatus(ctx, l, "default/"+name, "EndpointsNotFollowed"), story.BrokenAt(ctx, l, "svc/default/"+name, "endpoints", "EndpointsNotFollowed"))
	}))

	relabelSlices(t, l, name, `{"metadata": {"labels": {"`+lb.HeadlessLabel+`": null}}}`)
	story.Announced(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
}

func relabel(t *testing.T, l *lab.Lab, service, patch string) {
	t.Helper()
	_, err := l.Kube.CoreV1().Services(corev1.NamespaceDefault).Patch(t.Context(), service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

// relabelSlices patches all EndpointSlices of a Service.
func relabelSlices(t *testing.T, l *lab.Lab, service, patch string) {
	t.Helper()
	of := l.Kube.DiscoveryV1().EndpointSlices(corev1.NamespaceDefault)
	all, err := of.List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	must(t, err)
	if len(all.Items) < 2 {
		t.Fatalf("%d EndpointSlices of %s, want one a family", len(all.Items), service)
	}
	for _, s := range all.Items {
		_, err := of.Patch(t.Context(), s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
	}
}

// exempt waits until the agent of every machine tells for this reason that it does not ask about some VIPs, and nothing else of them; no
// reason: it asks.
func exempt(t *testing.T, l *lab.Lab, vips []netip.Addr, reason lb.Reason) {
	t.Helper()
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		var wrong []error
		for _, m := range l.Topology.Machines() {
			for _, vip := range vips {
				if said, err := saidOf(ctx, l, m.Name, vip); err != nil || said != string(reason) {
					wrong = append(wrong, fmt.Errorf("%s says %q of %s, want %q: %v", m.Name, said, vip, reason, err))
				}
			}
		}
		return errors.Join(wrong...)
	}))
}

// saidOf is why an agent does not ask about a VIP, and what else it tells of its rules.
func saidOf(ctx context.Context, l *lab.Lab, machine string, vip netip.Addr) (said string, err error) {
	text, err := l.AgentStatus(ctx, machine)
	if err != nil {
		return "", err
	}
	type about struct{ VIP, Router, Reason string }
	var status struct{ Exempt, Overdue, Refusals []about }
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return "", err
	}
	for _, some := range [][]about{status.Exempt, status.Overdue, status.Refusals} {
		for _, a := range some {
			if a.VIP == vip.String() && a.Router == "" {
				said += a.Reason
			}
		}
	}
	return said, nil
}
