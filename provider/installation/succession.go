package installation

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory/source"
)

// How the leader of one lease follows that of another, where the name of the lease is changed of an installation that runs: old
// and new controllers are elected side by side then, and one alone may act. The ConfigMap [source.AcceptedName] names the lease
// that the installation runs on, and by an annotation who asks to follow.
//
// Whoever leads by another lease asks first, and only then looks whether the lease that the installation runs on is held. Is it
// not, it writes its own name, unless the ConfigMap was written since it was read. Whoever leads by the lease that the
// installation runs on takes the word back of who asked, before it acts. So either the one that follows sees the lease held, or
// its write is a conflict. In the years between, nothing is written.
//
// Other programs have leases of that name as well, and are not waited for. They are told by their names, as the API server knows
// them: one that links the provider and is called otherwise than Plinth's writes its name there before it acts, too.

// turn is the next step of a leader about the lease that its installation runs on.
type turn int

const (
	acts    turn = iota // it may act
	waits               // for the holder of that lease
	asks                // writes that it wants to follow
	follows             // writes that the installation runs on its own lease
	stays               // takes the word back of who asked to follow
	signs               // writes the name of its program
)

// turnOf decides on the turn of who leads by a lease, by what the ConfigMap says: the lease that the installation runs on, and
// that of who asks to follow. signed says whether it has the program's name, if it is to, and held whether the former was held by
// somebody who may act, after the ConfigMap was read.
func turnOf(lease, runsOn, next string, signed, held bool) turn {
	switch {
	case runsOn == lease && next != "" && next != lease:
		return stays
	case runsOn == lease && !signed:
		return signs
	case runsOn == lease:
		return acts
	case held:
		return waits
	case next == lease:
		return follows
	}
	return asks
}

// LeaseOf returns the name of the lease that the installation of a namespace runs on.
func LeaseOf(ctx context.Context, client kubernetes.Interface, namespace string) (string, error) {
	i, err := Accepted(ctx, client, namespace)
	return i.Lease, err
}

// Accepted is an installation as its ConfigMap [source.AcceptedName] says it, with the name of the lease that it runs on.
func Accepted(ctx context.Context, client kubernetes.Interface, namespace string) (Installation, error) {
	common, err := acceptedOf(ctx, client, namespace)
	i := Installation{Namespace: namespace, Lease: source.LeaseOf(common)}
	if common != nil {
		i.readAccepted(common)
	}
	return i, err
}

// acceptedOf is the ConfigMap [source.AcceptedName] of a namespace; nil: nothing was accepted.
func acceptedOf(ctx context.Context, client kubernetes.Interface, namespace string) (*v1.ConfigMap, error) {
	common, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, source.AcceptedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which lease the installation of namespace %s runs on: %w", namespace, err)
	}
	return common, nil
}

// succession is the part of one leader in that.
type succession struct {
	client    kubernetes.Interface
	namespace string // of the installation
	lease     string // by which it leads
	program   string // as others know it, where it is called otherwise than Plinth's
	// heldBy returns the holder of another lease that may act; empty: there is none. signed is the program that the ConfigMap names.
	heldBy func(ctx context.Context, lease, signed string) (string, error)
}

// wait is the holder that a leader waits for, and its lease; its zero value: the leader may act.
type wait struct{ holder, lease string }

// step takes turns until the leader may act, or has to wait. Where nothing was accepted there is nothing to act on, and
// package source ends those but one that come first at the same time.
func (s succession) step(ctx context.Context) (wait, error) {
	for {
		common, err := acceptedOf(ctx, s.client, s.namespace)
		if err != nil || common == nil {
			return wait{}, err
		}
		runsOn, signed, holder := source.LeaseOf(common), common.Annotations[source.AnnotationProgram], ""
		if runsOn != s.lease {
			if holder, err = s.heldBy(ctx, runsOn, signed); err != nil {
				return wait{}, err
			}
		}
		switch turnOf(s.lease, runsOn, common.Annotations[source.AnnotationNextLease], s.program == "" || s.program == signed, holder != "") {
		case acts:
			return wait{}, nil
		case waits:
			return wait{holder, runsOn}, nil
		case asks:
			err = s.write(ctx, common, source.AnnotationNextLease, s.lease)
		case follows:
			delete(common.Annotations, source.AnnotationNextLease)
			err = s.write(ctx, common, source.AnnotationLease, s.lease)
		case stays:
			err = s.write(ctx, common, source.AnnotationNextLease, "")
		case signs:
			err = s.write(ctx, common, source.AnnotationProgram, s.program)
		}
		if err != nil && !apierrors.IsConflict(err) {
			return wait{}, err
		}
	}
}

// write writes an annotation of the ConfigMap, or takes it off, unless somebody else has written that since it was read.
func (s succession) write(ctx context.Context, common *v1.ConfigMap, annotation, value string) error {
	if common.Annotations == nil {
		common.Annotations = map[string]string{}
	}
	common.Annotations[annotation] = value
	if value == "" {
		delete(common.Annotations, annotation)
	}
	if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Update(ctx, common, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing which lease the installation of namespace %s runs on: %w", s.namespace, err)
	}
	return nil
}
