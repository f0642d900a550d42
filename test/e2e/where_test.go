package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

func TestWhatKeepsAMachineFromAnnouncingAVIPIsHeardByItsRouterOnAndOff(t *testing.T) {
	l := shared(t)
	vips := onlyLocally(t, l, "where")
	everywhere := []string{"w1", "w2", "w3", "w4"}
	toldBy(t, l, vips, everywhere...)

	exclude := func(value any) { // w1 is behind FRR, w3 behind BIRD
		for _, machine := range []string{"w1", "w3"} {
			label(t, l, machine, corev1.LabelNodeExcludeBalancers, value)
		}
	}
	t.Cleanup(func() { exclude(nil) })
	exclude("")
	toldBy(t, l, vips, "w2", "w4")
	exclude(nil)
	toldBy(t, l, vips, everywhere...)

	inForce(t, l, lab.Inventory(l.Topology)) // until the end of the story
	for _, c := range []struct {
		setting  string
		machines []string
	}{
		{"advertise: {racks: [r2]}", []string{"w3", "w4"}},
		{"advertise: {racks: [r1]}", []string{"w1", "w2"}},
		{"advertise: {zones: [lab-b]}", []string{"w3", "w4"}},
		{"advertise: {routers: [tor-r1]}", []string{"w1", "w2"}},
		{"state: disabled", nil},
		{"state: active", everywhere},
	} {
		apply := l.ApplyInventory
		if len(c.machines) == 0 {
			apply = l.ApplyInventoryWithLosses
		}
		must(t, apply(t.Context(), withPool(l, c.setting)))
		toldBy(t, l, vips, c.machines...)
	}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
}

func TestPodsThatServeWhileTheyTerminateKeepTheirVIPs(t *testing.T) {
	l := shared(t)
	vips := onlyLocally(t, l, "linger")
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	pods, err := l.Pods(t.Context(), "linger")
	must(t, err)
	for _, p := range pods {
		must(t, l.AnnotatePod(t.Context(), p.Name, kubelet.LingerAnnotation, "14s"))
	}
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		probes[vip] = probing(t, l, vip, 50)
	}
	moves, err := l.RouterMoves(t.Context(), vips)
	must(t, err)
	scale(t, l, "linger", 0) // a machine may hear of its pods a moment before others, and leave for that long
	must(t, lab.Within(t.Context(), 5*time.Second, func(ctx context.Context) error {
		pods, err := l.Pods(ctx, "linger")
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				err = errors.Join(err, fmt.Errorf("%s does not terminate", p.Name))
			}
		}
		return err
	}))
	story.PauseFor(t, 3*time.Second) // all that is left serves while it terminates
	toldBy(t, l, vips, "w1", "w2", "w3", "w4")
	moved := moves()
	for vip, p := range probes {
		if r := p.Stop(); r.Sent < 100 || len(r.NotMoved(moved[vip])) > 0 {
			t.Errorf("%s, served by pods that terminate: %s; lost and not moved: %v; moves: %v", vip, r, r.NotMoved(moved[vip]), moved[vip])
		}
	}
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip)) // they have ended
	}
}

// toldBy waits until routers have heard of the VIPs from exactly these machines.
func toldBy(t *testing.T, l *lab.Lab, vips []netip.Addr, machines ...string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) (wrong error) {
		for _, m := range l.Topology.Machines() {
			rack, _ := l.Topology.RackOf(m.Name)
			at := l.Topology.MachineAddress(m.Name)
			for _, vip := range vips {
				routes, err := l.BGPRoutes(ctx, rack.Routers[0], lab.VIPPrefix(vip))
				wrong = errors.Join(wrong, err)
				told := slices.ContainsFunc(routes, func(r lab.BGPRoute) bool { return r.NextHop == at.V4 || r.NextHop == at.V6 })
				if want := slices.Contains(machines, m.Name); told != want {
					wrong = errors.Join(wrong, fmt.Errorf("%s tells %s of %s: %t, want %t", m.Name, rack.Routers[0], vip, told, want))
				}
			}
		}
		return wrong
	}))
}

// label sets a label of a machine's Node, or takes it off where value is nil.
func label(t *testing.T, l *lab.Lab, machine, key string, value any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
	must(t, err)
	_, err = l.Kube.CoreV1().Nodes().Patch(context.Background(), machine, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// scale changes how many pods a Deployment has.
func scale(t *testing.T, l *lab.Lab, name string, replicas int32) {
	t.Helper()
	must(t, l.ScaleWeb(t.Context(), name, replicas))
}
