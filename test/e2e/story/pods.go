package story

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

// Anywhere keeps every pair of machines.
func Anywhere(string, string) bool { return true }

// Mesh probes all pods for a part of a story, which begins once all reach each other.
func Mesh(t *testing.T, l *lab.Lab, keep func(from, to string) bool) *lab.Mesh {
	t.Helper()
	pods, err := l.Pods(t.Context(), "mesh")
	must(t, err)
	must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error {
		for _, from := range pods {
			for _, to := range pods {
				if !keep(from.Spec.NodeName, to.Spec.NodeName) {
					continue
				}
				if err := Reaches(ctx, l, from, to); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	m, err := l.ProbeMesh(t.Context(), pods, keep)
	must(t, err)
	t.Cleanup(func() { m.Stop() })
	Calm(t, m)
	m.Forget()
	return m
}

// Reaches asks a pod from another one in both families. Nobody may rewrite who asks.
func Reaches(ctx context.Context, l *lab.Lab, from, to corev1.Pod) error {
	if len(from.Status.PodIPs) != 2 || len(to.Status.PodIPs) != 2 {
		return fmt.Errorf("pods with the addresses %v and %v, want one per family", from.Status.PodIPs, to.Status.PodIPs)
	}
	for i, ip := range to.Status.PodIPs {
		address, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return err
		}
		answer, err := l.GetFromPod(ctx, from.Spec.NodeName, from.Namespace, from.Name, lab.URL(address, 8080))
		if err != nil {
			return fmt.Errorf("from the pod on %s to %s on %s: %w", from.Spec.NodeName, ip.IP, to.Spec.NodeName, err)
		}
		if want := from.Status.PodIPs[i].IP; answer.Client != want {
			return fmt.Errorf("the pod on %s saw a request of %s come from %s", to.Spec.NodeName, want, answer.Client)
		}
	}
	return nil
}

// Calm waits until each prober has lost nothing for a second.
func Calm(t *testing.T, m *lab.Mesh) {
	t.Helper()
	from := time.Now()
	must(t, lab.Within(t.Context(), time.Minute, func(context.Context) error {
		for kind, p := range m.Probers {
			r := p.Report()
			if r.LastLoss.After(from) {
				from = r.LastLoss
			}
			if r.Sent == 0 || time.Since(from) < time.Second {
				return fmt.Errorf("%s: %s", kind, r)
			}
		}
		return nil
	}))
}

// OnlyLocally exposes a Deployment so that each machine serves its own pods alone.
func OnlyLocally(t *testing.T, l *lab.Lab, name string) []netip.Addr {
	t.Helper()
	Web(t, l, name, 4)
	service := lab.LoadBalancer(name, name)
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := Expose(t, l, service)
	Announced(t, l, vips)
	return vips
}

// ErrOther is an answer of a pod that was not to answer. Without one, nobody may have had the time to.
var ErrOther = errors.New("another pod answers")

// Answers fails unless one of these pods answers a host, or the outside client.
func Answers(ctx context.Context, l *lab.Lab, host string, vip netip.Addr, pods map[string]bool) error {
	get := l.Get
	if host != "" {
		get = func(ctx context.Context, url string) (lab.Answer, error) { return l.GetFrom(ctx, host, url) }
	}
	a, err := get(ctx, lab.URL(vip, lab.WebPort))
	if err == nil && !pods[a.Pod] {
		err = fmt.Errorf("%w: asked by %q, pod %s of node %s answers at %s", ErrOther, host, a.Pod, a.Node, vip)
	}
	return err
}

// Refused reports whether what nobody serves was answered, rather than sent back and
// forth until its TTL ended.
func Refused(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ECONNREFUSED)
}
