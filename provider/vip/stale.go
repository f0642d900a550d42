package vip

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/endpoints"
)

// clearReported clears the status of a Service before its VIPs are released, and takes off
// the finalizer with it. The caller releases them next, or its successor where this process ends before. A later
// Service of its name has its own VIPs. A change of the Service in between is no failure.
func (b *statuses) clearReported(ctx context.Context, k lb.ServiceKey, uid string) (err error) {
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

func (b *statuses) clearAsRead(ctx context.Context, k lb.ServiceKey, uid string) error {
	svc, err := b.reported(ctx, k, uid)
	if svc == nil || err != nil {
		return err
	}
	metadata, status := map[string]any{"uid": svc.UID, "resourceVersion": svc.ResourceVersion}, b.clearedStatus(svc)
	if b.hasOurFinalizer(svc) || addedFinalizer(svc) {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{servicehelper.LoadBalancerCleanupFinalizer}
	} else if len(status) == 0 {
		return nil
	}
	return b.patchStatus(ctx, svc, map[string]any{"metadata": metadata, "status": status})
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

// fieldManager is the start of the program's name, by which the API server knows
// clients that give no field manager.
const fieldManager = "plinth"

// clearedStatus is the patch of a status that takes Plinth's words out of it: the
// conditions, and each address that the Service holds, and, where Plinth served it, that is
// of a pool or used by machines, routers or the cluster. Another balancer's stay.
func (b *statuses) clearedStatus(svc *v1.Service) map[string]any {
	status := map[string]any{}
	var conditions []any
	for _, typ := range []string{lb.VIPAllocated, lb.VIPAnnounced} {
		if meta.FindStatusCondition(svc.Status.Conditions, typ) != nil {
			conditions = append(conditions, withoutCondition(typ))
		}
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	was := svc.Status.LoadBalancer.Ingress
	rest := ask(b.store, func(s *ipam.State) []v1.LoadBalancerIngress {
		return slices.DeleteFunc(slices.Clone(was), func(i v1.LoadBalancerIngress) bool {
			a, err := netip.ParseAddr(i.IP)
			return err == nil && (s.IsHolder(a, keyOf(svc)) || b.served(svc) && (s.Pool(a) != "" || s.Uses(a)))
		})
	})
	if len(rest) < len(was) {
		status["loadBalancer"] = map[string]any{"ingress": rest}
	}
	return status
}

// hasOurFinalizer reports whether a Service that is not to be served, or no more, has the
// finalizer of load balancers on it, and it is Plinth's to take off: of a Service without a
// class, or of Plinth's. One of another class, or without a class where Plinth serves its
// own alone, only if Plinth has served it before, and no other balancer has given it an
// address since.
func (b *statuses) hasOurFinalizer(svc *v1.Service) bool {
	if b.byStock || !servicehelper.HasLBFinalizer(svc) || b.isOurs(svc) || b.keepsVIPs(svc) {
		return false
	}
	if ofOurClass(svc) || !b.options.ClassOnly && svc.Spec.LoadBalancerClass == nil {
		return true
	}
	if meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) == nil {
		return false
	}
	return ask(b.store, func(s *ipam.State) bool {
		return !slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i v1.LoadBalancerIngress) bool {
			a, err := netip.ParseAddr(i.IP)
			return err != nil || s.Pool(a) == "" && !s.IsHolder(a, keyOf(svc))
		})
	})
}

// keepsVIPs reports whether a Service was served before Plinth came to serve its class
// only: nothing more is written to it.
func (b *environment) keepsVIPs(svc *v1.Service) bool {
	return b.options.ClassOnly && classless(svc) && svc.DeletionTimestamp == nil
}

// isStale reports whether the status of a Service that is not Plinth's to serve shows what
// is to be cleared, or is to be kept from others.
func (b *statuses) isStale(svc *v1.Service) bool {
	if b.isOurs(svc) || len(svc.Status.LoadBalancer.Ingress) == 0 && !b.served(svc) {
		return false
	}
	k := keyOf(svc)
	return b.mayClear(svc) && len(b.clearedStatus(svc)) > 0 || ask(b.store, func(s *ipam.State) bool {
		return len(without(s.Unheld(k, endpoints.ShownBy(svc)), s.Shows(k)...)) > 0
	})
}

// mayClear reports whether the status of a Service that is not Plinth's to serve any more is
// Plinth's to clear.
func (b *environment) mayClear(svc *v1.Service) bool {
	return !b.byStock && !b.keepsVIPs(svc) && b.served(svc)
}

// observeAllShown keeps from others what the statuses in the cache show of Services that are
// not Plinth's to serve. What another Service holds stays with that one.
func (b *store) observeAllShown(s *ipam.State) (e ipam.Effects) {
	all, _ := b.services.List(labels.Everything()) // a cache never fails
	for _, svc := range all {
		e = e.And(b.observeShown(s, svc))
	}
	return e
}

// observeShown keeps from others what the status of a Service shows that is not Plinth's to
// serve, and has it looked at if it is Plinth's to clear.
func (b *store) observeShown(s *ipam.State, svc *v1.Service) ipam.Effects {
	if b.isOurs(svc) || len(svc.Status.LoadBalancer.Ingress) == 0 && !b.served(svc) {
		return ipam.Effects{}
	}
	e := s.ObserveShown(keyOf(svc), endpoints.ShownBy(svc))
	if b.mayClear(svc) {
		e.Reconcile = append(e.Reconcile, ipam.Retry{Service: keyOf(svc)})
	}
	return e
}

// reviewStale looks at the status of a Service anew, if addresses are kept from others
// since it shows them, and lets others have those that it shows no more.
func (b *Controller) reviewStale(ctx context.Context, key lb.ServiceKey) error {
	if len(ask(b.store, func(s *ipam.State) []netip.Addr { return s.Shows(key) })) == 0 {
		return nil
	}
	svc, err := b.cluster.Client.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		svc, err = &v1.Service{}, nil
	}
	if err != nil {
		return err
	}
	b.apply(func(s *ipam.State) ipam.Effects { return s.ObserveCleared(key, endpoints.ShownBy(svc), b.now()) })
	if svc.Name != "" {
		b.tellStale(svc)
	}
	return nil
}

// tellStale records an Event on a Service whose status keeps addresses of pools from
// everybody and is not Plinth's to clear: once, and again when the addresses change.
func (b *statuses) tellStale(svc *v1.Service) {
	var shown []netip.Addr
	if !b.isOurs(svc) && (!b.served(svc) || b.keepsVIPs(svc)) {
		shown = ask(b.store, func(s *ipam.State) []netip.Addr { return s.ShowsAlone(keyOf(svc)) })
	}
	if len(shown) == 0 {
		b.cluster.Reports.Clear(svc, string(lb.StatusNotHeld))
		return
	}
	b.cluster.Reports.Warn(svc, string(lb.StatusNotHeld), inventory.ShortenText(fmt.Sprintf("the status shows %s, which Plinth has not given to this Service, and gives to nobody before the status shows it no more. "+
		"If no other balancer serves this Service: kubectl patch service %s -n %s --subresource=status --type=merge -p '{\"status\":{\"loadBalancer\":null}}'",
		strings.Join(inventory.Strings(shown), ", "), svc.Name, svc.Namespace), maxEvent))
}
