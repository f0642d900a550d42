package provider

import (
	"context"
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

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// balancerWorkers is how many Services Plinth's own controller looks at at once.
const balancerWorkers = 16

// reasonStatusOverwritten is the reason of the Event on a Service whose status another
// program wrote.
const reasonStatusOverwritten = "StatusOverwritten"

// startLoadBalancer starts what gives Services their VIPs: it serves the class
// plinth.dev/bgp, Services that wait, and statuses that somebody overwrote. What the
// stock controller asks is answered from here too.
func startLoadBalancer(ctx context.Context, c *Cloud, _ start) error {
	b := c.balancer
	b.client = c.client
	services := c.informers.Core().V1().Services()
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
	register(vipCollector{b})
	go b.run(ctx, registration.HasSynced)
	return nil
}

func (b *balancer) run(ctx context.Context, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	go b.keepReleased(ctx)
	if !b.begin(ctx) {
		return
	}
	go b.cloud.onInventory(ctx, func() { b.insist(ctx, b.setPools) })
	go b.audit(ctx)
	go b.watchForRestore(ctx)
	b.queue.run(ctx, balancerWorkers)
}

// serviceCame queues a Service that only Plinth's own controller looks at. Those without
// a class are the stock controller's, but for those that were served before; see
// [stockServices].
func (b *balancer) serviceCame(obj any) {
	svc, ok := obj.(*v1.Service)
	if ok && (b.drifted(svc) || ofOurClass(svc) || fullyWritten(svc) && b.isOurs(svc) || b.abandoned(svc) || b.isStale(svc)) {
		b.queue.Add(keyOf(svc).String())
	}
}

// serviceChanged queues a Service when there may be something to do for Plinth's own
// controller: the stock one does not look at labels, deletions without a finalizer,
// nor at what others write into a status.
func (b *balancer) serviceChanged(before, now any) {
	old, ok1 := before.(*v1.Service)
	svc, ok2 := now.(*v1.Service)
	if !ok1 || !ok2 {
		return
	}
	drifted := b.drifted(svc) // also notes a status that is right
	k := keyOf(svc)
	if drifted || asksAnew(old, svc) || b.isOurs(old) && !b.isOurs(svc) || b.abandoned(svc) || b.isStale(svc) || b.keepsStale(k) || b.holdsUnreported(k) {
		b.queue.Add(k.String())
	}
}

// asksAnew reports whether a Service asks for something else and the stock
// controller does not look.
func asksAnew(old, svc *v1.Service) bool {
	switch {
	case old.UID != svc.UID || !maps.Equal(old.Labels, svc.Labels):
		return true
	case ofOurClass(svc):
		return !maps.Equal(old.Annotations, svc.Annotations) || !apiequality.Semantic.DeepEqual(old.Spec, svc.Spec)
	}
	return classless(svc) && unseen(old, svc)
}

// unseen reports whether what changed of a Service without a class is its backends, or
// whether one family will do: the stock controller compares neither selectors nor policies.
func unseen(old, svc *v1.Service) bool {
	was, is := &old.Spec, &svc.Spec
	return was.ExternalTrafficPolicy == is.ExternalTrafficPolicy && backendsOf(old) != backendsOf(svc) ||
		len(was.IPFamilies) == len(is.IPFamilies) && wantOf(old) != wantOf(svc)
}

func (b *balancer) serviceGone(obj any) {
	b.forgetStaleTold(obj)
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		if k, ok := parseKey(key); ok && b.holdsAny(k) {
			b.queue.Add(k.String())
		}
	}
}

func (b *balancer) holdsAny(k lb.ServiceKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.waiting[k]
	return len(b.ledger.Holds(k)) > 0 || b.standings[k] != nil || waits || b.keepsStaleLocked(k)
}

// sync looks at one Service.
func (b *balancer) sync(ctx context.Context, name string) error {
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
	case b.isOurs(svc):
		return b.serve(ctx, svc)
	case holds || b.abandoned(svc) || b.isStale(svc):
		return b.relinquishUnserved(ctx, k)
	}
	return nil
}

// serve settles which VIPs a Service has, and has the Service say so.
func (b *balancer) serve(ctx context.Context, svc *v1.Service) error {
	d, err := b.settle(ctx, svc, true)
	if err != nil {
		return err
	}
	b.recordEvent(svc, d)
	b.lookAfterRests(keyOf(svc), d)
	if err := b.writeOwnStatus(ctx, svc, d); err != nil {
		return err
	}
	return b.reviewStale(ctx, keyOf(svc))
}

// lookAfterRests has a Service looked at when an address that it asks for, and that is
// another's for now, ends its rest: nothing else happens then.
func (b *balancer) lookAfterRests(k lb.ServiceKey, d ipam.Decision) {
	for _, x := range d.Denials {
		if !x.Until.IsZero() {
			b.queue.AddAfter(k.String(), x.Until.Sub(b.now()))
		}
	}
}

// writeOwnStatus writes a status that is Plinth's own controller's to write, and one that
// somebody overwrote.
func (b *balancer) writeOwnStatus(ctx context.Context, svc *v1.Service, d ipam.Decision) error {
	k, drifted := keyOf(svc), b.drifted(svc)
	if drifted {
		now, after := b.mayRight(k)
		if !now {
			b.queue.AddAfter(k.String(), after)
			return nil
		}
	} else if !b.writes(k) {
		return nil
	}
	wrote, err := b.writeStatus(ctx, svc, d)
	if drifted && wrote {
		b.hasRighted(k)
		b.cloud.recorder.Event(svc, v1.EventTypeWarning, reasonStatusOverwritten, overwritten(svc, d))
	}
	return err
}

// writes reports whether the status of a Service is Plinth's own controller's to
// write. What of it is not the VIPs always is.
func (b *balancer) writes(k lb.ServiceKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.standings[k]
	return s != nil && (s.ours || s.seen)
}

// abandoned reports whether a Service without a class was served by Plinth before it came
// to serve its class only, and goes, or is no load balancer any more: nobody else takes
// the finalizer off. If another balancer has given it an address since, that one does.
func (b *balancer) abandoned(svc *v1.Service) bool {
	if !b.cloud.options.ClassOnly || !servicehelper.HasLBFinalizer(svc) || ofOurClass(svc) ||
		meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) == nil || classless(svc) && svc.DeletionTimestamp == nil {
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
// and gives back what it holds. The cache is not enough to say so. While the stock
// controller's finalizer is on it, it is the stock controller that has it given back.
func (b *balancer) relinquishUnserved(ctx context.Context, k lb.ServiceKey) error {
	svc, err := b.client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	var uid types.UID
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case b.isOurs(svc):
		b.queue.AddRateLimited(k.String()) // the cache has not seen it yet
		return nil
	default:
		uid = svc.UID
		b.keepStale(svc)
		if !b.abandoned(svc) && (servicehelper.HasLBFinalizer(svc) || b.keepsVIPs(svc)) {
			return b.reviewStale(ctx, k)
		}
	}
	defer b.lookAgain(k)
	if err := b.relinquishHeld(ctx, k, uid); err != nil {
		return err
	}
	return b.reviewStale(ctx, k)
}
