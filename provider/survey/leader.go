package survey

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/provider/installation"
	"plinth.dev/plinth/wake"
)

// A lease that looks as if nobody renewed it is looked at again: the clocks of its holder and of whoever reads it may
// differ. Controllers renew theirs every 2 s, unless --leader-elect-retry-period says otherwise.
const (
	looksAgainFor   = 5 * time.Second
	looksAgainEvery = 500 * time.Millisecond
)

// leader reads the lease of the controllers: its holder, and for how long that has been silent.
func (r Reader) leader(ctx context.Context) (*diagnose.Leader, error) {
	own, err := installation.Accepted(ctx, r.Client, r.Namespace)
	if err != nil {
		return nil, err
	}
	said := &diagnose.Leader{Lease: r.Namespace + "/" + own.Lease}
	first, err := r.lease(ctx, own)
	if err != nil || first == nil {
		return said, err
	}
	said.Exists, said.Holder, said.Program = true, first.Holder, first.OtherProgram()
	silent := time.Since(first.Renewed)
	if said.Holder == "" || silent >= 0 && silent <= first.Lasts {
		said.Idle = r.idle(ctx, own.Lease)
		return said, nil
	}
	for begun := time.Now(); time.Since(begun) < looksAgainFor; {
		if !wake.After(ctx, looksAgainEvery) {
			return said, fmt.Errorf("looking whether a controller leads: %w", context.Cause(ctx))
		}
		now, err := r.lease(ctx, own)
		if err != nil {
			return said, err
		}
		if now == nil || !now.Renewed.Equal(first.Renewed) {
			return said, nil
		}
	}
	said.Silent = max(silent, looksAgainFor)
	return said, nil
}

// idle returns the reason for which the holder of a lease may not act; empty: it may, or the client has no right to look at other namespaces.
func (r Reader) idle(ctx context.Context, lease string) string {
	all, err := installation.Find(ctx, r.Client, lease)
	if err != nil {
		return ""
	}
	return installation.WhyIdle(r.Namespace, all, time.Now())
}

// lease is an installation with what its lease says; nil: there is none.
func (r Reader) lease(ctx context.Context, found installation.Installation) (*installation.Installation, error) {
	lease, err := r.Client.CoordinationV1().Leases(r.Namespace).Get(ctx, found.Lease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	found.ReadLease(lease)
	return &found, nil
}
