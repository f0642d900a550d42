package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// slowPods take two seconds to be ready, and serve on for ten after SIGTERM.
var slowPods = map[string]string{kubelet.ReadyAfterAnnotation: "2s", kubelet.LingerAnnotation: "10s"}

// newConnections is how many each story makes at least, to all VIPs together.
const newConnections = 6000

// TestARolloutLosesNoNewConnection replaces all pods, and has one of them become four and
// one again, while each request is a connection of its own: a machine announces a VIP once
// its own kube-proxy has the rules for it. An answer after half a second counts as lost:
// a SYN was sent again. So run the other mode of kube-proxy, and one that is slow:
//
//	go test -C test ./e2e -run Rollout -args -proxy-mode=iptables -proxy-min-sync=5s -others=1000
func TestARolloutLosesNoNewConnection(t *testing.T) {
	for policy, local := range map[string]corev1.ServiceExternalTrafficPolicy{
		"local":   corev1.ServiceExternalTrafficPolicyLocal,
		"cluster": corev1.ServiceExternalTrafficPolicyCluster,
	} {
		t.Run(policy, func(t *testing.T) {
			l := shared(t)
			servicesBeside(t, l, *others)
			name := "rollout-" + policy
			web(t, l, name, 2)
			rollout(t, l, name, slowPods)
			service := lab.LoadBalancer(name, name)
			service.Spec.ExternalTrafficPolicy = local
			vips := expose(t, l, service)
			moves, probes := routerMoves(t, l, vips), map[netip.Addr]*lab.Prober{}
			for _, vip := range vips {
				must(t, l.WaitServed(t.Context(), vip))
				probes[vip] = probing(t, l, vip, requestRate)
			}
			for _, step := range []func(){
				func() { rollout(t, l, name, slowPods) },
				func() { scaled(t, l, name, 1) },
				func() { scaled(t, l, name, 4) },
				func() { rollout(t, l, name, slowPods) },
				func() { scaled(t, l, name, 1) },
			} {
				step()
			}
			for len(probes) > 0 && sent(probes) < newConnections {
				pauseFor(t, time.Second)
			}
			noneLost(t, probes, moves())
			for _, m := range l.Topology.Machines() {
				if late := overdue(t, l, m.Name); len(late) > 0 {
					t.Errorf("%s announces %v without kube-proxy's rules", m.Name, late)
				}
				t.Logf("%s has waited for kube-proxy's rules: %s", m.Name, rulesWait(t, l, m.Name))
			}
		})
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
		if rest, ok := strings.CutPrefix(line, "plinth_agent_proxy_rules_wait_seconds_"); ok {
			told = append(told, strings.TrimSpace(rest))
		}
	}
	return strings.Join(told, ", ")
}

func sent(probes map[netip.Addr]*lab.Prober) (n int) {
	for _, p := range probes {
		n += p.Report().Sent
	}
	return n
}

// noneLost ends the probes: none of their connections was lost but those that were under
// way when a router moved them.
func noneLost(t *testing.T, probes map[netip.Addr]*lab.Prober, moved map[netip.Addr][]time.Time) {
	t.Helper()
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		if lost := notCut(t, r, moved[vip]); len(lost)+r.Slow > 0 {
			t.Errorf("%s: %d of %d new connections were lost, and %d came late", vip, len(lost), r.Sent, r.Slow)
			for _, at := range lost {
				t.Log("lost at", at.Format(time.StampMilli))
			}
		}
	}
}

// rollout replaces all pods of a Deployment by some with these annotations, and waits until
// the last old one has gone.
func rollout(t *testing.T, l *lab.Lab, name string, annotations map[string]string) {
	t.Helper()
	at := map[string]string{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)}
	for k, v := range annotations {
		at[k] = v
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": at}}}})
	must(t, err)
	old, err := l.Pods(t.Context(), name)
	must(t, err)
	_, err = l.Kube.AppsV1().Deployments("default").Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	rolledOut(t, l, name, func(p corev1.Pod) bool {
		return !slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.UID == p.UID })
	})
}

// scaled changes how many pods a Deployment has, and waits until all are ready and the
// others have gone.
func scaled(t *testing.T, l *lab.Lab, name string, replicas int) {
	t.Helper()
	scale(t, l, name, replicas)
	rolledOut(t, l, name, func(corev1.Pod) bool { return true })
}

// rolledOut waits until a Deployment has exactly the pods that it is to have, all of them
// ready and as they are to be.
func rolledOut(t *testing.T, l *lab.Lab, name string, good func(corev1.Pod) bool) {
	t.Helper()
	must(t, lab.Within(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		d, err := l.Kube.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pods, err := l.Pods(ctx, name)
		if err == nil && (!complete(d) || len(pods) != int(*d.Spec.Replicas) || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !good(p) })) {
			err = fmt.Errorf("deployment %s, to be %d pods: %d are there, and it says %+v", name, *d.Spec.Replicas, len(pods), d.Status)
		}
		return err
	}))
}

func complete(d *appsv1.Deployment) bool {
	s, want := d.Status, *d.Spec.Replicas
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.ReadyReplicas == want && s.Replicas == want
}

// overdue are the VIPs that a machine's agent says it announces without having seen
// kube-proxy's rules for them.
func overdue(t *testing.T, l *lab.Lab, machine string) (vips []string) {
	t.Helper()
	text, err := l.AgentStatus(t.Context(), machine)
	must(t, err)
	var status struct{ Overdue []struct{ VIP string } }
	must(t, json.Unmarshal([]byte(text), &status))
	for _, o := range status.Overdue {
		vips = append(vips, o.VIP)
	}
	return vips
}
