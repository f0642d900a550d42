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
	"plinth.dev/plinth/wake"
)

// defaultPatience is for how long a move waits for a controller to end: as long as a lease lasts
// that was not given up, and some seconds for the pod to end.
const defaultPatience = time.Minute

// parkedFor68Years is the longest duration that a lease can have. The election takes over a lease only
// after the duration that the lease itself names (client-go, leaderelection.go, isLeaseValid).
const parkedFor68Years = math.MaxInt32 // seconds

// park holds the lease that the installation runs on for the new namespace, once nobody holds it: from then on
// no controller leads in the old one, by whatever lease.
func (m Move) park(ctx context.Context) error {
	name, err := LeaseOf(ctx, m.Client, m.From)
	if err != nil {
		return err
	}
	if err := m.parkLease(ctx, name); err != nil {
		return err
	}
	// Somebody with another lease may have asked to follow, or has followed.
	somebody := func(context.Context, string, string) (string, error) { return "somebody", nil }
	waits, err := succession{m.Client, m.From, name, "", somebody}.step(ctx)
	if err == nil && waits.holder != "" {
		err = fmt.Errorf("the installation of namespace %s runs on lease %s by now: stop the controller there, and run this again", m.From, waits.lease)
	}
	return err
}

func (m Move) parkLease(ctx context.Context, name string) error {
	patience := m.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	guard := Guard{seen: map[types.NamespacedName]lastSeen{}}
	said := false
	for end := uptime.Now() + patience; ; {
		lease, exists, err := m.lease(ctx, name)
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
				m.Say(fmt.Sprintf("parked lease %s: no controller leads in namespace %s any more", name, m.From))
				return nil
			}
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		if uptime.Now() > end {
			return fmt.Errorf("%s still holds lease %s of namespace %s: stop the controller there: kubectl -n %s scale deployment -l app.kubernetes.io/name=plinth-cloud-controller-manager --replicas=0",
				now.Holder, name, m.From, m.From)
		}
		if !said {
			said = true
			m.Say(fmt.Sprintf("waiting for %s to give up lease %s of namespace %s", now.Holder, name, m.From))
		}
		if !wake.After(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// unpark frees the leases of the new namespace that an earlier move away from there has parked.
func (m Move) unpark(ctx context.Context) error {
	leases, err := m.Client.CoordinationV1().Leases(m.To).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the leases of namespace %s: %w", m.To, err)
	}
	for i := range leases.Items {
		lease, now := &leases.Items[i], Installation{}
		if now.ReadLease(lease); now.parkedFor() == "" {
			continue
		}
		hold(lease, "", 1)
		if err := m.writeLease(ctx, lease, true); err != nil {
			return err
		}
		m.Say(fmt.Sprintf("freed lease %s of namespace %s", lease.Name, m.To))
	}
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

// lease is a lease of the old namespace, or one that is yet to be made.
func (m Move) lease(ctx context.Context, name string) (lease *coordinationv1.Lease, exists bool, err error) {
	lease, err = m.Client.CoordinationV1().Leases(m.From).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: m.From, Name: name}}, false, nil
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
