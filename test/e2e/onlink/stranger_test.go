package onlink

import (
	"context"
	"fmt"
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
	macs, err := l.MACs()
	must(t, err)
	var stranger string
	for mac, host := range macs {
		if host == lab.Laptop {
			stranger = mac.String()
		}
	}
	for _, vip := range vips {
		t.Cleanup(func() { must(t, l.GiveBackAddress(lab.Laptop, vip)) })
		must(t, l.TakeAddress(lab.Laptop, vip))
		must(t, lab.Within(t.Context(), 5*time.Second, func(ctx context.Context) error {
			s, err := l.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "taken", metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool {
				return strings.Contains(c.Message, stranger) && strings.Contains(c.Message, vip.String())
			}) {
				err = fmt.Errorf("no condition names %s and %s: %+v", stranger, vip, s.Status.Conditions)
			}
			return err
		}))
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
