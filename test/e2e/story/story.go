// Package story has what stories on different labs tell in the same words.
package story

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Lab starts a lab without Plinth for the length of a story.
func Lab(t *testing.T, name string, topology lab.Topology) *lab.Lab {
	t.Helper()
	l, err := lab.Start(t.Context(), topology, lab.Options{Name: name})
	t.Cleanup(func() {
		if t.Failed() && l != nil {
			logs := filepath.Join(os.TempDir(), "plinth-e2e-logs-"+name)
			t.Log("logs of all programs:", logs, l.SaveLogs(logs))
		}
		if err := lab.Down(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	return l
}

// Web runs so many web servers for the length of a story.
func Web(t *testing.T, l *lab.Lab, name string, replicas int32) {
	t.Helper()
	Webs(t, l, lab.Web{Name: name, Replicas: replicas})
}

// Webs runs web servers for the length of a story.
func Webs(t *testing.T, l *lab.Lab, w lab.Web) {
	t.Helper()
	t.Cleanup(func() {
		if err := l.RemoveWeb(context.Background(), w); err != nil {
			t.Error(err)
		}
	})
	must(t, l.RunWeb(t.Context(), w))
}

// Expose creates a Service for the length of a story, and returns its VIPs, IPv4
// before IPv6.
func Expose(t *testing.T, l *lab.Lab, s *corev1.Service) []netip.Addr {
	t.Helper()
	t.Cleanup(func() {
		if _, err := l.VIPs(context.Background(), s.Name); err == nil {
			if err := l.RemoveService(context.Background(), s.Name); err != nil {
				t.Error(err)
			}
		}
	})
	vips, err := l.Expose(t.Context(), s)
	must(t, err)
	return vips
}

// Announced waits until every machine announces all the VIPs; where machines are
// given, those alone.
func Announced(t *testing.T, l *lab.Lab, vips []netip.Addr, machines ...string) {
	t.Helper()
	for _, vip := range vips {
		must(t, l.WaitAnnounced(t.Context(), vip, machines...))
	}
}

// PauseFor lets a flood go on for a while.
func PauseFor(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// Edited is a text with one part replaced, the first.
func Edited(t *testing.T, text, old, now string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("there is no %q in\n%s", old, text)
	}
	return strings.Replace(text, old, now, 1)
}

// StatusSays waits until the status of the inventory is ready or not, with these words.
func StatusSays(t *testing.T, l *lab.Lab, ready, words string, limit time.Duration) error {
	t.Helper()
	return lab.Within(t.Context(), limit, func(ctx context.Context) error {
		cm, err := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace).Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err == nil && (cm.Data["ready"] != ready || !strings.Contains(cm.Data["problems"], words)) {
			err = fmt.Errorf("status %v, want ready %s and %q", cm.Data, ready, words)
		}
		return err
	})
}
