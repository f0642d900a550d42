package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// verdict is what was decided on an edit.
type verdict struct {
	problems inventory.Problems
	losses   string // the digest of those for which the edit is refused; empty: for none
}

// decide returns the inventory that is to be in force with an edit: that of the edit, or where
// it is refused, or cannot be decided on yet, which is an error, the one that is in force.
func (r *Reconciler) decide(ctx context.Context, proposed Edit) (*inventory.Inventory, verdict, error) {
	inForce := r.have.inventory
	known, err := r.known(ctx)
	if err != nil {
		return inForce, verdict{}, err
	}
	next, problems := admit(proposed, known)
	said := verdict{problems: problems}
	if next == nil {
		return inForce, said, nil
	}
	if err := r.judge(ctx, proposed, next, &said); err != nil {
		return inForce, verdict{}, fmt.Errorf("the inventory waits, for it cannot be told what it would take away: %w", err)
	}
	said.problems = append(said.problems, notStorable(next, r.have)...)
	if said.problems.Err() != nil {
		return inForce, said, nil
	}
	return next, said, nil
}

// admit reads an edit, with what is held of the inventory in force. The inventory is nil if and
// only if the problems have an error.
func admit(proposed Edit, inForce *inventory.Inventory) (*inventory.Inventory, inventory.Problems) {
	if proposed.Problems.Err() != nil {
		return nil, proposed.Problems
	}
	name := ""
	if inForce != nil {
		name = inForce.Name
	}
	next, problems := document.ParseFor(name, proposed.Documents...)
	problems = append(problems, proposed.Problems...)
	if next == nil {
		return nil, problems
	}
	if wrong := mislabelled(proposed.Carriers, next.Name); len(wrong) > 0 {
		return nil, append(wrong, problems...)
	}
	if next.Safety.Paused {
		return nil, append(problems, edit.PausedProblem())
	}
	admitted, more := edit.Admit(next, inForce)
	return admitted, append(problems, more...)
}

// judge holds what an edit would take away against what it may.
func (r *Reconciler) judge(ctx context.Context, proposed Edit, next *inventory.Inventory, said *verdict) error {
	r.leave = r.have.allows()
	allowed := proposed.Allowance.And(edit.Allowance{Digests: edit.AllowedBy(r.leave)})
	losses, err := r.losses(ctx, next)
	if err != nil {
		return err
	}
	problems, digest := losses.Refuse(r.have.inventory, allowed)
	if unaided, _ := losses.Refuse(r.have.inventory, edit.Allowance{}); len(unaided) == 0 && !document.Equal(next, r.have.inventory) {
		if problems, digest, err = r.stays(ctx, proposed, next, allowed); err != nil {
			return err
		}
	}
	if said.problems = append(problems, said.problems...); len(problems) > 0 {
		said.losses = digest
	}
	if allowed.Removals > 0 && !losses.NeedLeave(r.have.inventory) {
		said.problems = append(said.problems, leaveLeftBehind(allowed.Removals))
	}
	return nil
}

// losses are what an inventory would take away from what is in force.
func (r *Reconciler) losses(ctx context.Context, next *inventory.Inventory) (losses edit.Losses, err error) {
	inForce := r.have.inventory
	losses = edit.LossesOf(next, inForce)
	if inForce == nil || r.ClusterLosses == nil || document.Equal(next, inForce) {
		return losses, nil
	}
	of, err := r.ClusterLosses(ctx, inForce, next)
	return losses.In(of), err
}

// allows is the leave that somebody wrote on the ConfigMap that lists the slices.
func (a accepted) allows() string {
	if common := a.parts[AcceptedName]; common != nil {
		return common.Annotations[edit.AnnotationAllow]
	}
	return ""
}

// stays refuses an edit again that was refused for its losses, though it would not cause them
// any more: something else did meanwhile.
func (r *Reconciler) stays(ctx context.Context, proposed Edit, next *inventory.Inventory, allowed edit.Allowance) (inventory.Problems, string, error) {
	content, digest, err := r.refusedBefore(ctx)
	if err != nil || content != proposed.content() || slices.Contains(allowed.Digests, digest) {
		return nil, "", err
	}
	if inForce := r.have.inventory; edit.RetermedBy(next, inForce).Digest() == digest {
		failed := []string{"the same edit was tried before"}
		return inventory.Problems{edit.TrialFailedProblem(failed, inForce.Safety.Trial(), digest)}, digest, nil
	}
	return inventory.Problems{{
		Severity: inventory.Error, Code: inventory.StaysRefused, Path: "spec",
		Message:  "was refused for what it would have taken away, which is lost by now in another way",
		Accepted: "another edit, or if this one is meant: plinth allow " + digest,
	}}, digest, nil
}

// refusedBefore is the content of the last edit that was refused for its losses, and their digest,
// as the status says; empty: the last one was not. It is read once: a leader that has just begun
// does not know what the one before refused.
func (r *Reconciler) refusedBefore(ctx context.Context) (content, digest string, err error) {
	if r.refused == nil {
		status, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, StatusName, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", "", fmt.Errorf("reading configmap %s: %w", StatusName, err)
		}
		r.refused = new("")
		if err == nil {
			*r.refused = status.Data[KeyRefused]
		}
	}
	content, digest, _ = strings.Cut(*r.refused, " ")
	return content, digest, nil
}
