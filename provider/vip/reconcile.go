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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/endpoints"
)

// serviceCame queues a Service that is to be served, or shows what Plinth once wrote.
func (b *Controller) serviceCame(obj any) {
	svc, ok := obj.(*v1.Service)
	if !ok {
		return
	}
	b.tellIgnored(svc)
	b.tellTaken(svc)
	if b.isOurs(svc) || b.hasOurFinalizer(svc) || b.isStale(svc) {
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
	b.tellIgnored(svc)
	b.tellTaken(svc)
	key, ours := keyOf(svc), b.isOurs(svc)
	anew := ours && asksAnew(old, svc)
	switch {
	case !ours:
		b.withdraw(key)
	case anew:
		b.revise(svc)
	}
	drifted := b.drifted(svc)
	unfinished := ask(b.store, func(s *ipam.State) bool { return !ours && s.Knows(key) || len(s.Shows(key)) > 0 || s.HoldsMore(key) })
	if drifted || unfinished || anew || b.hasOurFinalizer(svc) || b.isStale(svc) {
		b.queue.Add(key.String())
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
		if k, ok := lb.ParseServiceKey(key); ok {
			b.withdraw(k)
		}
		b.queue.Add(key)
	}
}

// withdraw withdraws the request of a Service that is not to be served: it is offered nothing any more.
func (b *store) withdraw(k lb.ServiceKey) {
	b.note(func(s *ipam.State) { s.Withdraw(k) })
}

// revise updates the request by which a Service is offered addresses that become free.
func (b *store) revise(svc *v1.Service) {
	b.note(func(s *ipam.State) { s.Revise(requestOf(svc)) })
}

// knows reports whether a Service holds something, waits, or was given an answer.
func (b *store) knows(k lb.ServiceKey) bool {
	return ask(b, func(s *ipam.State) bool { return s.Knows(k) })
}

// reconcile looks at one Service.
func (b *Controller) reconcile(ctx context.Context, name string) error {
	key, ok := lb.ParseServiceKey(name)
	if !ok {
		return nil
	}
	svc, err := b.services.Services(key.Namespace).Get(key.Name)
	switch gone, knows := err != nil, b.knows(key); {
	case gone && !knows:
		return nil
	case gone:
		return b.letGo(ctx, key)
	case b.isOurs(svc) && !closed(b.ready):
		return nil // every Service is looked at once anything may be given
	case b.isOurs(svc):
		err = b.serve(ctx, svc)
	case knows || b.hasOurFinalizer(svc) || b.isStale(svc):
		err = b.letGo(ctx, key)
	}
	b.reportFailure(svc, err)
	return err
}

// serve settles which VIPs a Service has, and has the Service say so.
func (b *Controller) serve(ctx context.Context, svc *v1.Service) error {
	decision, err := b.assign(ctx, svc)
	if err != nil {
		return err
	}
	if b.byStock {
		return nil
	}
	said := b.announcements.said(keyOf(svc))
	wrote, err := b.writeOwnStatus(ctx, svc, decision, said)
	if err != nil {
		return err
	}
	if wrote {
		b.recordEvent(svc, decision)
		b.recordAnnounced(svc, said)
		b.AnnouncementsChanged() // it may hold other VIPs now
	}
	return b.reviewStale(ctx, keyOf(svc))
}

// reportFailure records an Event on a Service that cannot be served, or let go, since the
// API server fails what is asked of it, once for each answer. That others were faster is
// no failure.
func (b *statuses) reportFailure(svc *v1.Service, err error) {
	switch {
	case b.byStock, errors.Is(err, errContended), errors.Is(err, context.Canceled), apierrors.IsConflict(err):
	case err == nil:
		b.cluster.Reports.Clear(svc, reasonSyncFailed)
	default:
		b.cluster.Reports.Warn(svc, reasonSyncFailed, inventory.ShortenText(err.Error(), maxEvent))
	}
}

// writeOwnStatus writes the status by the decision, and reports whether it wrote: what somebody
// overwrote it repairs ever less often.
func (b *statuses) writeOwnStatus(ctx context.Context, svc *v1.Service, decision ipam.Decision, said announcement) (wrote bool, err error) {
	key, drifted := keyOf(svc), b.drifted(svc)
	if drifted {
		if now, after := b.reports.mayRepair(key); !now {
			b.queue.AddAfter(key.String(), after)
			return false, nil
		}
	}
	wrote, err = b.writeStatus(ctx, svc, decision, said)
	if drifted && wrote {
		b.reports.repaired(key)
		b.cluster.Recorder.Event(svc, v1.EventTypeWarning, reasonStatusOverwritten, overwritten(svc, decision))
	}
	return wrote, err
}

// drifted reports whether somebody overwrote the status of a Service: it said what the Service
// was told last, and no longer does.
func (b *statuses) drifted(svc *v1.Service) bool {
	d, told := b.told(svc)
	return told && b.reports.observe(svc, d)
}

// letGo clears the status of a Service that is gone, or not Plinth's any more, and releases
// what it holds. The cache is not enough to say so. Another balancer's finalizer, and what
// that one says in the status, stay.
func (b *Controller) letGo(ctx context.Context, key lb.ServiceKey) error {
	svc, err := b.cluster.Client.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	uid := ""
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case b.isOurs(svc):
		return errCacheIsLate(key)
	default:
		uid = string(svc.UID)
		b.apply(func(s *ipam.State) ipam.Effects { return s.ObserveShown(key, endpoints.ShownBy(svc)) })
		if b.mustWait(svc) {
			return b.reviewStale(ctx, key)
		}
	}
	defer b.lookAgain(key)
	if err := b.clearAndRelease(ctx, key, uid); err != nil {
		return err
	}
	return b.reviewStale(ctx, key)
}

// clearAndRelease releases all that the Service of that UID, or any of its name, holds, and
// forgets the Service, unless there is another of its name by now. Its status is cleared
// first: should this process end in between, its successor releases the rest.
func (b *Controller) clearAndRelease(ctx context.Context, key lb.ServiceKey, uid string) error {
	defer b.ofService.lock(key)()
	if err := b.clearReported(ctx, key, uid); err != nil {
		return err
	}
	for _, a := range ask(b.store, func(s *ipam.State) []netip.Addr { return slices.Clone(s.Holds(key)) }) {
		if done, err := b.release(ctx, a, key, uid); err != nil || !done {
			return err
		}
	}
	b.note(func(s *ipam.State) { s.Forget(key) })
	b.reports.forget(key)
	b.AnnouncementsChanged()
	return nil
}

// lookAgain queues a Service that is to be served, though what it held was released a
// moment ago: it was no load balancer for a while, and is one again.
func (b *environment) lookAgain(k lb.ServiceKey) {
	if svc := b.service(k); svc != nil && b.isOurs(svc) {
		b.queue.Add(k.String())
	}
}

// mustWait reports whether a Service that is not Plinth's to serve has to keep what it
// holds for now.
func (b *Controller) mustWait(svc *v1.Service) bool {
	if b.byStock {
		return b.linked.shows(svc)
	}
	return b.keepsVIPs(svc)
}
