package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
)

var errOnTrial = errors.New("on trial")

// take has an edit take the place of the last one. A trial goes on: the edit may give sessions the same terms.
func (r *Reconciler) take(proposed Edit) {
	r.edit = &proposed
	if r.life.Phase != edit.OnTrial {
		r.life = edit.NewLife()
	}
}

// decide decides on the edit. An error means that it waits, [errOnTrial] for agents' reports; what is in force stays.
func (r *Reconciler) decide(ctx context.Context, proposed Edit) error {
	verdict, err := r.verdict(ctx, proposed)
	if err != nil {
		return errors.Join(err, r.life.Reconsider())
	}
	if err := r.life.Decide(verdict); err != nil {
		return err
	}
	switch {
	case len(verdict.CameUp) > 0:
		r.Log.Info("sessions came up under their new terms", "nodes", verdict.CameUp)
	case verdict.Phase == edit.OnTrial:
		return fmt.Errorf("%w until %s, on one machine for each router whose sessions get other terms: %s",
			errOnTrial, verdict.Trial.Until.UTC().Format(time.RFC3339), strings.Join(verdict.Trial.Lines(), ", "))
	}
	return nil
}

// verdict is what is decided on an edit, once a trial that it begins is stored.
func (r *Reconciler) verdict(ctx context.Context, proposed Edit) (edit.Verdict, error) {
	known, err := r.known(ctx)
	if err != nil {
		return edit.Verdict{}, err
	}
	r.allowed = r.have.allows()
	verdict, err := edit.Decide(proposed.proposal(r.allowed), r.have.inventory, r.evidence(ctx, known))
	if err != nil || verdict.Phase != edit.OnTrial || verdict.Trial.ID != "" {
		return verdict, err
	}
	if verdict.Trial, err = r.storeTrial(ctx, verdict.Next, verdict.Trial); err != nil {
		r.loaded = false
		return verdict, err
	}
	before := func(node string) bool { return slices.Contains(r.life.Verdict.Silent, node) }
	if silent := slices.DeleteFunc(slices.Clone(verdict.Silent), before); len(silent) > 0 {
		r.Log.Warn("others try new terms of sessions, since the agents that were to do so reported nothing", "nodes", silent)
	}
	return verdict, nil
}

// proposal is an edit as it is decided on, with what the stored ConfigMap allows.
func (e Edit) proposal(allowed string) edit.Proposal {
	return edit.Proposal{
		Documents: e.Documents, Content: e.content(), Problems: e.Problems,
		Allowance:   e.Allowance.And(edit.Allowance{Digests: edit.AllowedBy(allowed)}),
		Mislabelled: func(name string) inventory.Problems { return mislabelled(e.Carriers, name) },
	}
}

// evidence is what an edit is decided by besides the inventory in force.
func (r *Reconciler) evidence(ctx context.Context, known *inventory.Inventory) edit.Evidence {
	e := edit.Evidence{
		Known: known, Whole: r.spoilt == nil, Silent: r.life.Verdict.Silent, Now: r.now(),
		Storable: func(next *inventory.Inventory) inventory.Problems { return notStorable(next, r.have) },
		Refusal:  func() (edit.Refusal, error) { return r.refusedBefore(ctx) },
		Running:  r.runningTrial,
	}
	if r.ClusterLosses != nil {
		e.Losses = func(next *inventory.Inventory) (edit.Losses, error) {
			return r.ClusterLosses(ctx, r.have.inventory, next)
		}
	}
	if r.Agents != nil {
		e.Agents = func() (map[string]edit.Agent, error) { return r.Agents(ctx) }
	}
	return e
}

// allows is the leave that somebody wrote on the ConfigMap that lists the slices.
func (a accepted) allows() string {
	if common := a.parts[AcceptedName]; common != nil {
		return common.Annotations[edit.AnnotationAllow]
	}
	return ""
}

// refusedBefore is the last edit that was refused for its losses,
// as the status says; none: the last one was not. It is read once: a leader that has just begun
// does not know what the one before refused.
func (r *Reconciler) refusedBefore(ctx context.Context) (edit.Refusal, error) {
	if r.refused == nil {
		status, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, StatusName, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return edit.Refusal{}, fmt.Errorf("reading configmap %s: %w", StatusName, err)
		}
		r.refused = new(edit.Refusal)
		if err == nil {
			*r.refused = edit.ParseRefusal(status.Data[KeyRefused])
		}
	}
	return *r.refused, nil
}
