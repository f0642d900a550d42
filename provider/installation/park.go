package installation

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/uptime"
)

// defaultPatience is for how long a move waits for a controller to end: as long as a lease lasts
// that was not given up, and some seconds for the pod to end.
const defaultPatience = time.Minute

// parkedFor68Years is the longest duration that a lease can have. The election takes over a lease only
// after the duration that the lease itself names (client-go, leaderelection.go, isLeaseValid).
const parkedFor68Years = math.MaxInt32 // seconds

// park has the lease of the old namespace be held for the new one, once nobody holds it: from then on
// no controller leads there.
func (m Move) park(ctx context.Context) error {
	patience := m.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	guard := Guard{seen: map[string]lastSeen{}}
	said := false
	for end := uptime.Now() + patience; ; {
		lease, exists, err := m.lease(ctx, m.From)
		if err != nil {
			return err
		}
		now := Installation{Namespace: m.From}
		now.ReadLease(lease)
		if now.parkedFor() == m.To {
			return nil
		}
		if !guard.alive(now, uptime.Now()) {
			hold(lease, movedPrefix+m.To, parkedFor68Years)
			err := m.writeLease(ctx, lease, exists)
			if err == nil {
				m.Say(fmt.Sprintf("parked lease %s: no controller leads in namespace %s any more", m.Lease, m.From))
				return nil
			}
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		if uptime.Now() > end {
			return fmt.Errorf("%s still holds lease %s of namespace %s: stop the controller there: kubectl -n %s scale deployment -l app.kubernetes.io/name=plinth-cloud-controller-manager --replicas=0",
				now.Holder, m.Lease, m.From, m.From)
		}
		if !said {
			said = true
			m.Say(fmt.Sprintf("waiting for %s to give up lease %s of namespace %s", now.Holder, m.Lease, m.From))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// unpark frees the lease of the new namespace where an earlier move away from there has parked it.
func (m Move) unpark(ctx context.Context) error {
	lease, exists, err := m.lease(ctx, m.To)
	if err != nil {
		return err
	}
	now := Installation{Namespace: m.To}
	now.ReadLease(lease)
	if now.parkedFor() == "" {
		return nil
	}
	hold(lease, "", 1)
	if err := m.writeLease(ctx, lease, exists); err != nil {
		return err
	}
	m.Say(fmt.Sprintf("freed lease %s of namespace %s", m.Lease, m.To))
	return nil
}

// mark says at the accepted inventory of the old namespace that it counts no more.
func (m Move) mark(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{AnnotationMovedTo: m.To}}})
	if err != nil {
		return err
	}
	was, err := m.Client.CoreV1().ConfigMaps(m.From).Get(ctx, source.AcceptedName, metav1.GetOptions{})
	if err == nil && was.Annotations[AnnotationMovedTo] == m.To {
		return nil
	}
	if err == nil {
		_, err = m.Client.CoreV1().ConfigMaps(m.From).Patch(ctx, source.AcceptedName, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("marking what is left in namespace %s: %w", m.From, err)
	}
	m.Say(fmt.Sprintf("the inventory in force is that of namespace %s now", m.To))
	return nil
}

// lease is the lease of a namespace, or one that is yet to be made.
func (m Move) lease(ctx context.Context, namespace string) (lease *coordinationv1.Lease, exists bool, err error) {
	lease, err = m.Client.CoordinationV1().Leases(namespace).Get(ctx, m.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Lease}}, false, nil
	}
	return lease, true, err
}

func hold(lease *coordinationv1.Lease, holder string, seconds int32) {
	now := metav1.NowMicro()
	transitions := ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions,
	}
}

// writeLease writes a lease, unless somebody else has written it since it was read.
func (m Move) writeLease(ctx context.Context, lease *coordinationv1.Lease, exists bool) (err error) {
	leases := m.Client.CoordinationV1().Leases(lease.Namespace)
	if exists {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	} else {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing lease %s of namespace %s: %w", lease.Name, lease.Namespace, err)
	}
	return nil
}
