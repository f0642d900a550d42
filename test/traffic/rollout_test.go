package traffic

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// rolloutRequests is how many requests each Service of the story has at least, and
// rolloutRate how many a second each of its VIPs has.
const (
	rolloutRequests = 6000
	rolloutRate     = 40
)

// TestARolloutLosesNoNewConnection replaces, scales and drains pods, of a Deployment and of a
// DaemonSet, while each request is a connection of its own: a machine announces a VIP once
// its own kube-proxy has the rules for it. An answer after half a second counts as lost: a
// SYN was sent again. What a router moves while it is under way is reset, and what two
// routers send to each other while they move is lost: neither counts.
// The other combinations, where -router makes both routers one kind:
//
//	for router in frr bird; do
//	  for mode in nftables iptables; do
//	    go test -C test -count=1 ./e2e -run Rollout -args -router=$router -proxy-mode=$mode
//	    go test -C test -count=1 ./e2e -run Rollout -args -router=$router -proxy-mode=$mode -proxy-min-sync=5s -others=1000
//	  done
//	done
func TestARolloutLosesNoNewConnection(t *testing.T) {
	l := story.Shared(t)
	servicesBeside(t, l, *others)
	r := l.NewRollouts()
	t.Cleanup(func() {
		if err := r.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must(t, r.Begin(t.Context(), rolloutRate))
	must(t, r.Run(t.Context(), rolloutRequests))
	for _, report := range r.End() {
		t.Log(report)
		if err := report.Err(); err != nil {
			t.Error(err)
		}
	}
	for _, m := range l.Topology.Machines() {
		rules, err := rulesOf(t.Context(), l, m.Name)
		must(t, err)
		if late := rules.Overdue; len(late) > 0 {
			t.Errorf("%s announces %v without kube-proxy's rules", m.Name, late)
		}
		t.Logf("%s has waited for kube-proxy's rules: %s", m.Name, rulesWait(t, l, m.Name))
	}
}

// servicesBeside creates so many Services with an endpoint each, for the length of a story.
func servicesBeside(t *testing.T, l *lab.Lab, n int) {
	t.Helper()
	services, endpoints := l.Kube.CoreV1().Services("default"), l.Kube.DiscoveryV1().EndpointSlices("default")
	label := map[string]string{"beside": "rollout"}
	ready, http := true, "http"
	create := func(i int) error {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("beside-%d", i), Labels: label}}
		s.Spec.Ports = []corev1.ServicePort{{Name: http, Port: 80}}
		made, err := services.Create(t.Context(), s, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		port := int32(8080)
		_, err = endpoints.Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: made.UID}}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.250"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
			Ports:       []discoveryv1.EndpointPort{{Name: &http, Port: &port}},
		}, metav1.CreateOptions{})
		return err
	}
	t.Cleanup(func() {
		for i := range n {
			if err := services.Delete(context.Background(), fmt.Sprintf("beside-%d", i), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range n {
		must(t, create(i))
	}
}

// rulesWait is how long VIPs of a machine have waited for kube-proxy's rules so far, as its
// agent counts it.
func rulesWait(t *testing.T, l *lab.Lab, machine string) string {
	t.Helper()
	text, err := l.AgentMetrics(t.Context(), machine)
	must(t, err)
	var told []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "plinth_agent_proxy_rules_wait_seconds_"); ok && !strings.HasPrefix(rest, "bucket") {
			told = append(told, strings.TrimSpace(rest))
		}
	}
	return strings.Join(told, ", ")
}
