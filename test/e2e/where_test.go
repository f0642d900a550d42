package e2e

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestWhatKeepsAMachineFromAnnouncingAVIPIsHeardByItsRouterOnAndOff(t *testing.T) {
	l := story.Shared(t)
	vips := story.OnlyLocally(t, l, "where")
	everywhere := []string{"w1", "w2", "w3", "w4"}
	story.ToldBy(t, l, vips, everywhere...)

	exclude := func(value any) { // w1 is behind FRR, w3 behind BIRD
		for _, machine := range []string{"w1", "w3"} {
			label(t, l, machine, corev1.LabelNodeExcludeBalancers, value)
		}
	}
	t.Cleanup(func() { exclude(nil) })
	exclude("")
	story.ToldBy(t, l, vips, "w2", "w4")
	exclude(nil)
	story.ToldBy(t, l, vips, everywhere...)

	story.InForce(t, l, lab.Inventory(l.Topology)) // until the end of the story
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
		must(t, apply(t.Context(), story.WithPool(l, c.setting)))
		story.ToldBy(t, l, vips, c.machines...)
	}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
}

// label sets a label of a machine's Node, or takes it off where value is nil.
func label(t *testing.T, l *lab.Lab, machine, key string, value any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
	must(t, err)
	_, err = l.Kube.CoreV1().Nodes().Patch(context.Background(), machine, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}
