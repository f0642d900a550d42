package vip

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/lb"
)

// Every kube-proxy serves what a status shows until the Service is gone, whatever its
// deletion timestamp says. Of two Services that show one address, each machine picks one.
// So an address is given back only once its Service's status does not show it any more,
// and one that nobody holds is not given while any status shows it: a stale status is what
// an older version left, another program wrote, or was never cleared since the controller
// manager was down.

// reported returns the Service of that UID as the API server has it now; nil if it is
// gone.
func (b *Controller) reported(ctx context.Context, k lb.ServiceKey, uid types.UID) (*v1.Service, error) {
	svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && svc.UID != uid {
		return nil, nil
	}
	return svc, err
}

// showsIn returns those addresses that a status shows.
func showsIn(svc *v1.Service, all []netip.Addr) []netip.Addr {
	if svc == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool {
		return !slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i v1.LoadBalancerIngress) bool { return i.IP == a.String() })
	})
}

// releaseUnreported gives back those addresses of a Service that its status does not show,
// and returns the others. They are given back once the status is written.
func (b *Controller) releaseUnreported(ctx context.Context, svc *v1.Service, all []netip.Addr) (shown []netip.Addr, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	now, err := b.reported(ctx, keyOf(svc), svc.UID)
	if err != nil {
		return nil, err
	}
	shown = showsIn(now, all)
	return shown, b.relinquishAll(ctx, keyOf(svc), svc.UID, without(all, shown...))
}

// holdsUnreported reports whether a Service holds more than it was told of: what it has
// moved away from is given back once its status does not show it any more.
func (b *Controller) holdsUnreported(k lb.ServiceKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.standings[k]
	return s != nil && len(b.ledger.Holds(k)) > len(s.decision.VIPs)
}

// clearReported clears the status of a Service before what it holds is given back. A later
// Service of its name says what is its own. Who changes the Service in between is no failure.
func (b *Controller) clearReported(ctx context.Context, k lb.ServiceKey, uid types.UID) (err error) {
	if uid == "" || b.byStock { // it is gone, or shows nothing that it holds
		return nil
	}
	for range claimAttempts {
		if err = b.clearAsRead(ctx, k, uid); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

func (b *Controller) clearAsRead(ctx context.Context, k lb.ServiceKey, uid types.UID) error {
	svc, err := b.reported(ctx, k, uid)
	if svc == nil || err != nil {
		return err
	}
	if b.hasOurFinalizer(svc) || addedFinalizer(svc) {
		return b.dropFinalizer(ctx, svc)
	}
	return b.clearStatus(ctx, svc)
}

// addedFinalizer reports whether it was Plinth that put the finalizer of load balancers on a
// Service, which the API server keeps in the managed fields. Another balancer that knows of no
// finalizer would never take it off. The Service was read live: the cache has no managed fields.
func addedFinalizer(svc *v1.Service) bool {
	key := []byte(`"v:\"` + servicehelper.LoadBalancerCleanupFinalizer + `\""`)
	return servicehelper.HasLBFinalizer(svc) && slices.ContainsFunc(svc.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return strings.HasPrefix(f.Manager, fieldManager) && f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), key)
	})
}

// fieldManager is what the name of the program begins with, by which the API server knows
// whoever gives no name of a field manager.
const fieldManager = "plinth"

// clearStatus takes off a Service that is not Plinth's to serve what Plinth said in its
// status.
func (b *Controller) clearStatus(ctx context.Context, svc *v1.Service) error {
	b.mu.Lock()
	status := b.clearedStatus(svc)
	b.mu.Unlock()
	if len(status) == 0 {
		return nil
	}
	return b.patchStatus(ctx, svc, map[string]any{
		"metadata": map[string]any{"uid": svc.UID, "resourceVersion": svc.ResourceVersion}, "status": status,
	})
}

// dropFinalizer takes the finalizer off a Service, and with it what Plinth said in the
// status. What it holds is given back next, by whoever leads then.
func (b *Controller) dropFinalizer(ctx context.Context, svc *v1.Service) error {
	b.mu.Lock()
	status := b.clearedStatus(svc)
	b.mu.Unlock()
	return b.patchStatus(ctx, svc, map[string]any{
		"metadata": map[string]any{
			"uid": svc.UID, "resourceVersion": svc.ResourceVersion,
			"$deleteFromPrimitiveList/finalizers": []string{servicehelper.LoadBalancerCleanupFinalizer},
		},
		"status": status,
	})
}

// clearedStatus is the patch of a status that takes Plinth's words out of it: the
// condition, and each address that the Service holds, and, where Plinth served it, that is
// of a pool or used by machines, routers or the cluster. Another balancer's stay. b.mu is
// held.
func (b *Controller) clearedStatus(svc *v1.Service) map[string]any {
	status := map[string]any{}
	if meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) != nil {
		status["conditions"] = []any{withoutCondition}
	}
	k, was := keyOf(svc), svc.Status.LoadBalancer.Ingress
	rest := slices.DeleteFunc(slices.Clone(was), func(i v1.LoadBalancerIngress) bool {
		a, err := netip.ParseAddr(i.IP)
		return err == nil && (b.holds(a, k) || b.served(svc) && (b.ledger.Pool(a) != "" || b.ledger.Uses(a)))
	})
	if len(rest) < len(was) {
		status["loadBalancer"] = map[string]any{"ingress": rest}
	}
	return status
}

// served reports whether a Service that is not Plinth's to serve was so before.
func (b *Controller) served(svc *v1.Service) bool {
	ours := ofOurClass(svc) || classless(svc) && !b.options.ClassOnly
	return ours || meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) != nil
}

// keepsVIPs reports whether a Service was served before Plinth came to serve its class
// only: nothing more is written to it.
func (b *Controller) keepsVIPs(svc *v1.Service) bool {
	return b.options.ClassOnly && classless(svc) && svc.DeletionTimestamp == nil
}

// unheld returns the addresses of pools that the status of a Service shows and that it is
// not known to hold. b.mu is held.
func (b *Controller) unheld(svc *v1.Service) (all []netip.Addr) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		a, err := netip.ParseAddr(i.IP)
		if err == nil && b.ledger.Pool(a) != "" && !b.holds(a, keyOf(svc)) {
			all = append(all, a)
		}
	}
	return all
}

// isStale reports whether the status of a Service that is not Plinth's to serve shows what
// is to be cleared, or is to be kept from others.
func (b *Controller) isStale(svc *v1.Service) bool {
	if b.isOurs(svc) || len(svc.Status.LoadBalancer.Ingress) == 0 && !b.served(svc) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mustClear(svc) ||
		slices.ContainsFunc(b.unheld(svc), func(a netip.Addr) bool { return !slices.Contains(b.stale[a], keyOf(svc)) })
}

// mustClear reports whether there is a status to clear of a Service that is not Plinth's to
// serve any more. b.mu is held.
func (b *Controller) mustClear(svc *v1.Service) bool {
	return !b.byStock && !b.keepsVIPs(svc) && b.served(svc) && len(b.clearedStatus(svc)) > 0
}

// keepsStale is keepsStaleLocked without b.mu held.
func (b *Controller) keepsStale(k lb.ServiceKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keepsStaleLocked(k)
}

// keepsStaleLocked reports whether an address is kept from others since a Service's status
// shows it. b.mu is held.
func (b *Controller) keepsStaleLocked(k lb.ServiceKey) bool {
	for _, by := range b.stale {
		if slices.Contains(by, k) {
			return true
		}
	}
	return false
}

// keepStaleLocked keeps from others what the status of a Service shows and it does not
// hold, once nobody else holds it, and has the Service looked at. b.mu is held.
func (b *Controller) keepStaleLocked(svc *v1.Service) {
	k := keyOf(svc)
	for _, a := range b.unheld(svc) {
		if slices.Contains(b.stale[a], k) {
			continue
		}
		b.log.Warn("a status shows an address that its Service does not hold; nobody else gets it before that is cleared", "service", k, "vip", a)
		b.stale[a] = append(b.stale[a], k)
		b.blockStale(a)
		b.queue.Add(k.String())
	}
}

// blockStale blocks an address that a stale status shows, unless a Service holds it, and
// reports whether it is blocked. b.mu is held.
func (b *Controller) blockStale(a netip.Addr) bool {
	if c, _ := b.ledger.Claim(a); len(b.stale[a]) == 0 || len(c.Holders) > 0 {
		return false
	}
	b.ledger.Block(a)
	b.queueStaleLocked(a) // that nobody gets it is told there
	return true
}

// keepAllStaleLocked is keepStaleLocked for those Services in the cache that are not
// Plinth's to serve. What another Service holds stays with that one; such a status is
// cleared all the same. b.mu is held.
func (b *Controller) keepAllStaleLocked() {
	all, _ := b.services.List(labels.Everything()) // a cache never fails
	for _, svc := range all {
		b.keepStaleOfOtherLocked(svc)
	}
}

// keepStale is keepStaleLocked without b.mu held.
func (b *Controller) keepStale(svc *v1.Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keepStaleLocked(svc)
}

// keepStaleOfOtherLocked is keepStaleLocked for a Service that is not Plinth's to serve,
// and has its status cleared if that is Plinth's to do. b.mu is held.
func (b *Controller) keepStaleOfOtherLocked(svc *v1.Service) {
	if b.isOurs(svc) {
		return
	}
	if b.keepStaleLocked(svc); b.mustClear(svc) {
		b.queue.Add(keyOf(svc).String())
	}
}

// reviewStale looks at the status of a Service anew, if addresses are kept from others
// since it shows them, and lets others have those that it shows no more.
func (b *Controller) reviewStale(ctx context.Context, k lb.ServiceKey) error {
	if !b.keepsStale(k) {
		return nil
	}
	svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		svc, err = nil, nil
	}
	if err != nil {
		return err
	}
	b.dropCleared(svc, k)
	if svc != nil {
		b.tellStale(svc)
	}
	return nil
}

// dropCleared notes which addresses the status of k does not show any more; no Service: all.
func (b *Controller) dropCleared(svc *v1.Service, k lb.ServiceKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for a, by := range b.stale {
		if slices.Contains(by, k) && len(showsIn(svc, []netip.Addr{a})) == 0 {
			b.dropStale(a, k)
		}
	}
}

// dropStale notes that the status of k does not show a any more. b.mu is held.
func (b *Controller) dropStale(a netip.Addr, k lb.ServiceKey) {
	if b.stale[a] = without(b.stale[a], k); len(b.stale[a]) > 0 {
		return
	}
	delete(b.stale, a)
	b.unblock(a)
}

// unblock lets Services have an address again that another program held, or a stale status
// showed, unless the other of the two still does. b.mu is held.
func (b *Controller) unblock(a netip.Addr) {
	if b.foreign[a] || len(b.stale[a]) > 0 {
		return
	}
	b.ledger.Unblock(a)
	b.grantFreed(a)
}
