package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
)

// How an edit that gives sessions other terms is tried on one machine for each router: the
// slices of its racks are stored as ever, and what would be [AcceptedName] stands in a ConfigMap
// beside it, which counts for the Nodes that it names and for one generation. It is gone before
// and after. Agents that do not know it keep what is in force.
const (
	TrialName       = "plinth-trial"
	AnnotationTrial = "plinth.dev/trial"       // its ID, by which agents speak of it
	AnnotationUntil = "plinth.dev/trial-until" // when it is over (RFC 3339)

	keyNodes = "nodes" // "<node> <router> <router> ...", a line each
)

const (
	// TrialGrace is for how long after its end an agent goes on with terms that are tried: by then
	// the controller has taken the edit up or ended the trial, or is away.
	TrialGrace = 15 * time.Second

	trialPoll = time.Second // how often it is looked at what became of the sessions
)

// runningTrial is the trial that is stored, where it is of the same inventory; mine: this process began it, or went on with it.
func (r *Reconciler) runningTrial(next *inventory.Inventory) (t edit.Trial, mine, found bool) {
	mine = r.life.Phase == edit.OnTrial
	parts := render(next, r.have)
	have, want := r.have.parts[TrialName], parts[len(parts)-1]
	if have == nil || have.Data[keyInventory] != want.Data[keyInventory] || have.Data[keyRacks] != want.Data[keyRacks] || generationOf(have) != generationOf(want) {
		return edit.Trial{}, mine, false
	}
	return trialIn(have), mine, true
}

// storeTrial stores what is to be tried and by whom, and returns the trial with its ID.
func (r *Reconciler) storeTrial(ctx context.Context, next *inventory.Inventory, t edit.Trial) (edit.Trial, error) {
	parts := render(next, r.have)
	want := parts[len(parts)-1]
	want.Name = TrialName
	for _, slice := range parts[:len(parts)-1] {
		written, err := r.store().write(ctx, slice, r.have)
		if err != nil {
			return t, fmt.Errorf("storing the inventory that is to be tried: configmap %s: %w", slice.Name, err)
		}
		r.have.parts[slice.Name] = written
	}
	until := t.Until.UTC().Format(time.RFC3339Nano)
	sum := sha256.Sum256([]byte(want.Data[keyInventory] + want.Data[keyRacks] + until))
	t.ID = hex.EncodeToString(sum[:4])
	want.Data[keyNodes] = strings.Join(t.Lines(), "\n") + "\n"
	want.Annotations[AnnotationTrial], want.Annotations[AnnotationUntil] = t.ID, until
	delete(want.Data, keyPrevious)
	delete(want.Annotations, edit.AnnotationAllow)
	written, err := r.store().put(ctx, want, r.have.parts[TrialName])
	if err != nil {
		return t, fmt.Errorf("storing the inventory that is to be tried: %w", err)
	}
	r.have.parts[TrialName] = written
	r.Log.Info("new terms of sessions are tried", "nodes", t.Nodes(), "until", t.Until)
	for _, carrier := range r.references(r.edit.Carriers) {
		r.Recorder.Event(&carrier, v1.EventTypeNormal, ReasonOnTrial, inventory.ShortenText("new terms of sessions are tried first: "+strings.Join(t.Lines(), ", "), eventBytes))
	}
	return t, nil
}

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// trialIn reads a trial.
func trialIn(cm *v1.ConfigMap) edit.Trial {
	t := edit.Trial{ID: cm.Annotations[AnnotationTrial], Routers: map[string][]string{}}
	t.Until, _ = time.Parse(time.RFC3339Nano, cm.Annotations[AnnotationUntil]) // zero: it is over
	for line := range strings.Lines(cm.Data[keyNodes]) {
		if words := strings.Fields(line); len(words) > 1 {
			t.Routers[words[0]] = words[1:]
		}
	}
	return t
}

// endTrial takes the trial away that is stored, unless it runs: for this leader, or for the one
// before where this one has not decided yet.
func (r *Reconciler) endTrial(ctx context.Context) error {
	stored := r.have.parts[TrialName]
	switch {
	case stored == nil || r.life.Phase == edit.OnTrial:
		return nil
	case !r.life.Phase.Decided() && r.now().Before(trialIn(stored).Until):
		return nil
	}
	if err := r.store().maps().Delete(ctx, TrialName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ending a trial: deleting configmap %s: %w", TrialName, err)
	}
	delete(r.have.parts, TrialName)
	return nil
}
