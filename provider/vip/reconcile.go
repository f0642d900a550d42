package vip

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/component-base/metrics/legacyregistry"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// Reasons of Events on Services.
const (
	reasonStatusOverwritten = "StatusOverwritten"      // another program wrote the status
	reasonSyncFailed        = "SyncLoadBalancerFailed" // the API server failed; also the stock controller's word for it
)

// start starts the controller, which runs until ctx ends. It serves Services of Plinth's
// class, and those without a class.
func (b *Controller) Start(ctx context.Context, workers int) error {
	services := b.cluster.Informers.Core().V1().Services()
	b.services = services.Lister()
	registration, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    b.serviceCame,
		UpdateFunc: b.serviceChanged,
		DeleteFunc: b.serviceGone,
	})
	if err != nil {
		return err
	}
	if err := b.watchIgnored(services.Informer()); err != nil {
		return err
	}
	legacyregistry.RawMustRegister(vipCollector{b})
	go b.run(ctx, workers, registration.HasSynced)
	return nil
}

func (b *Controller) run(ctx context.Context, workers int, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	go b.keepReleased(ctx)
	if !b.beginGivingBack(ctx) {
		return
	}
	go b.queue.Run(ctx, workers)
	if !b.beginGiving(ctx) {
		return
	}
	go b.options.InForce.OnChange(ctx, func() { b.insist(ctx, b.setPools) })
	go b.audit(ctx)
	b.watchForRestore(ctx)
}

// serviceCame queues a Service that is to be served, or shows what Plinth once wrote.
func (b *Controller) serviceCame(obj any) {
	svc, ok := obj.(*v1.Service)
	if ok && (b.isOurs(svc) || b.hasOurFinalizer(svc) || b.isStale(svc)) {
		b.queue.Add(keyOf(svc).String())
	}
}

// serviceChanged queues a Service when there may be something to do: it asks for something
// else, is to be served no more, or somebody has written into its status.
func (b *Controller) serviceChanged(before, now any) {
	old, ok1 := before.(*v1.Service)
	svc, ok2 := now.(*v1.Service)
	if !ok1 || !ok2 {
		return
	}
	drifted := b.drifted(svc) // also notes a status that is right
	k := keyOf(svc)
	if drifted || b.isOurs(svc) && asksAnew(old, svc) || !b.isOurs(svc) && b.holdsAny(k) || b.hasOurFinalizer(svc) || b.isStale(svc) || b.keepsStale(k) || b.holdsUnreported(k) {
		b.queue.Add(k.String())
	}
}

// asksAnew reports whether a Service asks for something else than before, or is another one.
func asksAnew(old, svc *v1.Service) bool {
	return old.UID != svc.UID || !maps.Equal(old.Labels, svc.Labels) || !maps.Equal(old.Annotations, svc.Annotations) ||
		!apiequality.Semantic.DeepEqual(old.Spec, svc.Spec)
}

// serviceGone queues a Service whatever it holds: a worker may have read it a moment ago, and
// be about to take something for it.
func (b *Controller) serviceGone(obj any) {
	b.forgetReports(obj)
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		b.queue.Add(key)
	}
}

func (b *Controller) holdsAny(k lb.ServiceKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.waiting[k]
	return len(b.ledger.Holds(k)) > 0 || b.standings[k] != nil || waits || b.keepsStaleLocked(k)
}

// sync looks at one Service.
func (b *Controller) sync(ctx context.Context, name string) error {
	k, ok := parseKey(name)
	if !ok {
		return nil
	}
	svc, err := b.services.Services(k.Namespace).Get(k.Name)
	switch gone, holds := err != nil, b.holdsAny(k); {
	case gone && !holds:
		return nil
	case gone:
		return b.relinquishUnserved(ctx, k)
	case b.isOurs(svc) && !closed(b.ready):
		return nil // every Service is looked at once anything may be given
	case b.isOurs(svc):
		err = b.serve(ctx, svc)
	case holds || b.hasOurFinalizer(svc) || b.isStale(svc):
		err = b.relinquishUnserved(ctx, k)
	}
	b.reportFailure(svc, err)
	return err
}

// serve settles which VIPs a Service has, and has the Service say so.
func (b *Controller) serve(ctx context.Context, svc *v1.Service) error {
	d, err := b.settle(ctx, svc)
	if err != nil {
		return err
	}
	b.lookAfterRests(keyOf(svc), d)
	if b.byStock {
		return nil
	}
	wrote, err := b.writeOwnStatus(ctx, svc, d)
	if err != nil {
		return err
	}
	if wrote {
		b.recordEvent(svc, d)
	}
	return b.reviewStale(ctx, keyOf(svc))
}

// reportFailure records an Event on a Service that cannot be served, or let go, since the
// API server fails what is asked of it, once for each answer. That others were faster is
// no failure.
func (b *Controller) reportFailure(svc *v1.Service, err error) {
	switch {
	case b.byStock, errors.Is(err, errContended), apierrors.IsConflict(err):
	case err == nil:
		b.cluster.Reports.Clear(svc, reasonSyncFailed)
	default:
		b.cluster.Reports.Warn(svc, reasonSyncFailed, bounded(err.Error(), maxEvent))
	}
}

// lookAfterRests has a Service looked at when an address that it asks for, and that is
// another's for now, ends its rest: nothing else happens then.
func (b *Controller) lookAfterRests(k lb.ServiceKey, d ipam.Decision) {
	for _, x := range d.Denials {
		if !x.Until.IsZero() {
			b.queue.AddAfter(k.String(), x.Until.Sub(b.now()))
		}
	}
}

// writeOwnStatus writes what was decided, and reports whether it wrote: what somebody
// overwrote it sets right ever less often.
func (b *Controller) writeOwnStatus(ctx context.Context, svc *v1.Service, d ipam.Decision) (wrote bool, err error) {
	k, drifted := keyOf(svc), b.drifted(svc)
	if drifted {
		if now, after := b.mayRight(k); !now {
			b.queue.AddAfter(k.String(), after)
			return false, nil
		}
	}
	wrote, err = b.writeStatus(ctx, svc, d)
	if drifted && wrote {
		b.hasRighted(k)
		b.cluster.Recorder.Event(svc, v1.EventTypeWarning, reasonStatusOverwritten, overwritten(svc, d))
	}
	return wrote, err
}

// hasOurFinalizer reports whether a Service that is not to be served, or no more, has the
// finalizer of load balancers on it, and it is Plinth's to take off: of a Service without a
// class, or of Plinth's. One of another class, or without a class where Plinth serves its
// own alone, only if Plinth has served it before, and no other balancer has given it an
// address since.
func (b *Controller) hasOurFinalizer(svc *v1.Service) bool {
	if b.byStock || !servicehelper.HasLBFinalizer(svc) || b.isOurs(svc) || b.keepsVIPs(svc) {
		return false
	}
	if ofOurClass(svc) || !b.options.ClassOnly && svc.Spec.LoadBalancerClass == nil {
		return true
	}
	if meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i v1.LoadBalancerIngress) bool {
		a, err := netip.ParseAddr(i.IP)
		return err != nil || b.ledger.Pool(a) == "" && !b.holds(a, keyOf(svc))
	})
}

// relinquishUnserved clears the status of a Service that is gone, or not Plinth's any more,
// and gives back what it holds. The cache is not enough to say so. Another balancer's
// finalizer, and what that one says in the status, stay.
func (b *Controller) relinquishUnserved(ctx context.Context, k lb.ServiceKey) error {
	svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	var uid types.UID
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case b.isOurs(svc):
		return errCacheIsLate(k)
	default:
		uid = svc.UID
		b.keepStale(svc)
		if b.mustWait(svc) {
			return b.reviewStale(ctx, k)
		}
	}
	defer b.lookAgain(k)
	if err := b.relinquishHeld(ctx, k, uid); err != nil {
		return err
	}
	return b.reviewStale(ctx, k)
}

// errCacheIsLate is a conflict, as that of a write would be.
func errCacheIsLate(k lb.ServiceKey) error {
	return apierrors.NewConflict(v1.Resource(resourceOfService), k.String(), errors.New("the cache has not seen yet that it is to be served"))
}

// mustWait reports whether a Service that is not Plinth's to serve has to keep what it
// holds for now.
func (b *Controller) mustWait(svc *v1.Service) bool {
	if b.byStock {
		return b.stockShows(svc)
	}
	return b.keepsVIPs(svc)
}
