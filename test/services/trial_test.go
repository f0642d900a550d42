package services

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
)

// unanswered is an AS that no router of these stories is in.
const unanswered = "64999"

// tryTrials does for the length of the story what agents do with new terms of sessions: their Nodes
// say what came of them. Routers that the inventory has in another AS than they are in do not
// answer. What agents themselves make of it is a story of the lab.
func (c *cluster) tryTrials() {
	go func() {
		for ctx := c.t.Context(); ctx.Err() == nil; {
			if err := c.tryTrial(ctx); err != nil && ctx.Err() == nil {
				c.t.Log("a trial: ", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
}

func (c *cluster) tryTrial(ctx context.Context) error {
	trial, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-trial", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(trial.Data["nodes"]) {
		words := strings.Fields(line)
		said := lb.TrialReport{ID: trial.Annotations["plinth.dev/trial"], Sessions: map[string]lb.TrialState{}}
		for _, router := range words[1:] {
			said.Sessions[router] = lb.TrialUp
			if c.tries(ctx, trial, router, unanswered) {
				said.Sessions[router] = lb.TrialDown
			}
		}
		condition := map[string]any{"type": lb.FabricReady, "status": "True", "message": fmt.Sprint("routes 0/0; ", said)}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
		if err != nil {
			return err
		}
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, words[0], types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// tries reports whether the slices that a trial lists have a router in an AS.
func (c *cluster) tries(ctx context.Context, trial *v1.ConfigMap, router, asn string) bool {
	for line := range strings.Lines(trial.Data["racks"]) {
		rack, generation, _ := strings.Cut(strings.TrimSpace(line), " ")
		slice, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-accepted."+rack+"."+generation, metav1.GetOptions{})
		if err != nil {
			c.t.Log("a trial: ", err)
			continue
		}
		for _, item := range strings.Split(slice.Data["inventory.yaml"], "- name: ") {
			if strings.HasPrefix(item, router+"\n") && strings.Contains(item, "asn: "+asn) {
				return true
			}
		}
	}
	return false
}
