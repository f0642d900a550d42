package onlink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestAStrangerWithAVIPIsNamed(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "taken")
	stranger := macOf(t, l, lab.Laptop)
	for _, vip := range vips {
		t.Cleanup(func() { must(t, l.GiveBackAddress(lab.Laptop, vip)) })
		must(t, l.TakeAddress(lab.Laptop, vip))
		must(t, named(t.Context(), l, "taken", vip, stranger))
		metric := fmt.Sprintf("reason=%q", "AddressConflict")
		var seen bool
		for _, m := range l.Topology.Machines() {
			text, err := l.AgentMetrics(t.Context(), m.Name)
			must(t, err)
			seen = seen || strings.Contains(text, metric)
		}
		if !seen {
			t.Errorf("no agent has a metric with %s", metric)
		}
	}
	must(t, lab.Within(t.Context(), 10*time.Second, func(ctx context.Context) error {
		events, err := l.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "taken" && strings.Contains(e.Message, stranger)
		}) {
			err = fmt.Errorf("no Event of the Service names %s", stranger)
		}
		return err
	}))
}

// TestAHostThatHasAVIPFirstIsNamed takes the addresses, as a host with a lease of them has, before a Service gets them.
func TestAHostThatHasAVIPFirstIsNamed(t *testing.T) {
	l := story.Home(t)
	vips := []netip.Addr{lab.LANPool4.To(), lab.LANPool6.To()}
	for _, vip := range vips {
		must(t, l.TakeAddress(lab.Laptop, vip))
		t.Cleanup(func() { _ = l.GiveBackAddress(lab.Laptop, vip) }) // as the story does
	}
	s := lab.LoadBalancer("leased", "")
	s.Annotations = map[string]string{"plinth.dev/ips": fmt.Sprintf("%s,%s", vips[0], vips[1])}
	exposed, err := l.ExposeOutside(t.Context(), s, l.Topology.RouterAddress(lab.HomeGateway, story.Shelf))
	must(t, err)
	t.Cleanup(func() { must(t, l.RemoveOutside(context.Background(), s.Name)) })
	if fmt.Sprint(exposed) != fmt.Sprint(vips) {
		t.Fatalf("it has %v, want %v", exposed, vips)
	}
	for _, vip := range vips {
		must(t, named(t.Context(), l, s.Name, vip, macOf(t, l, lab.Laptop)))
	}
	for _, vip := range vips {
		must(t, l.GiveBackAddress(lab.Laptop, vip))
	}
	for _, vip := range vips {
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	}
	must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error { return story.AllWell(ctx, l) }))
}

func macOf(t *testing.T, l *lab.Lab, host string) string {
	t.Helper()
	macs, err := l.MACs()
	must(t, err)
	for mac, of := range macs {
		if of == host {
			return mac.String()
		}
	}
	t.Fatal("no MAC of", host)
	return ""
}

// named waits until a condition of a Service names the host that has its VIP.
func named(ctx context.Context, l *lab.Lab, service string, vip netip.Addr, mac string) error {
	return lab.Within(ctx, 5*time.Second, func(ctx context.Context) error {
		s, err := l.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, service, metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool {
			return strings.Contains(c.Message, mac) && strings.Contains(c.Message, vip.String())
		}) {
			err = fmt.Errorf("no condition names %s and %s: %+v", mac, vip, s.Status.Conditions)
		}
		return err
	})
}
