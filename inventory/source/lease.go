package source

import (
	"cmp"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// DefaultLease is the name of the controllers' lease, unless --leader-elect-resource-name gives another.
const DefaultLease = "cloud-controller-manager"

// Annotations of the ConfigMap [AcceptedName] by which leaders of leases with different names follow one another, as
// provider/installation has it.
const (
	AnnotationLease     = "plinth.dev/lease"      // the lease that the installation runs on; none: [DefaultLease]
	AnnotationNextLease = "plinth.dev/next-lease" // the lease of who asks to follow; none: nobody does
)

// LeaseOf returns the name of the lease that an installation runs on, as its ConfigMap [AcceptedName] has it; nil: nothing was
// accepted.
func LeaseOf(common *v1.ConfigMap) string {
	if common == nil {
		return DefaultLease
	}
	return cmp.Or(common.Annotations[AnnotationLease], DefaultLease)
}

// sign writes into the ConfigMap that lists the slices by which lease its writer leads. One that was not elected keeps what is
// there.
func (s acceptedStore) sign(want, have *v1.ConfigMap) {
	switch {
	case want.Name != AcceptedName:
	case s.lease != "":
		want.Annotations[AnnotationLease] = s.lease
	case have != nil && have.Annotations[AnnotationLease] != "":
		want.Annotations[AnnotationLease] = have.Annotations[AnnotationLease]
	}
}

// overtakenBy is an error where the leader of another lease has what is stored: of leaders with different leases one alone acts.
func (r *Reconciler) overtakenBy(found accepted) error {
	common := found.parts[AcceptedName]
	by := LeaseOf(common)
	if r.Lease == "" || common == nil || by == r.Lease {
		return nil
	}
	r.Log.Error("This controller ends: its installation runs on another lease", "lease", r.Lease, "other", by)
	if r.Overtaken != nil {
		r.Overtaken()
	}
	return fmt.Errorf("the installation runs on lease %s, and this controller leads by lease %s", by, r.Lease)
}
