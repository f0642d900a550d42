package vip

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

const (
	seedRetry  = time.Second
	auditEvery = 5 * time.Minute
)

// beginGivingBack learns what is held from the IPAddress objects, which is enough to give
// back. It reads live, since a cache may be older than what this process's predecessor gave.
func (b *Controller) beginGivingBack(ctx context.Context) bool {
	if !b.insist(ctx, b.seed) || !b.watchClaims(ctx) {
		return false
	}
	close(b.seeded)
	return true
}

// beginGiving learns what else is held from the statuses of Services, once there are pools.
// Only then is anything given, and every Service looked at.
func (b *Controller) beginGiving(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.options.InForce.Changes():
	}
	if !b.insist(ctx, b.setPools) || !b.insist(ctx, b.takeOver) {
		return false
	}
	close(b.ready)
	all, _ := b.services.List(labels.Everything()) // a cache never fails
	for _, svc := range all {
		b.serviceCame(svc)
	}
	return true
}

// insist calls f until it succeeds or ctx ends. It says once for each reason why it does
// not succeed.
func (b *Controller) insist(ctx context.Context, f func(context.Context) error) bool {
	said := ""
	err := wait.PollUntilContextCancel(ctx, seedRetry, true, func(ctx context.Context) (bool, error) {
		err := f(ctx)
		if err != nil && err.Error() != said {
			said = err.Error()
			b.log.Error("cannot learn which VIPs are in use, trying again", "err", err)
		}
		return err == nil, nil
	})
	return err == nil
}

// loadBalancers lists the Services of that type, live, the oldest first.
func (b *Controller) loadBalancers(ctx context.Context) ([]v1.Service, error) {
	list, err := b.cluster.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.type", string(v1.ServiceTypeLoadBalancer)).String(),
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(x, y v1.Service) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return list.Items, nil
}

// listClaims lists the IPAddress objects of ours, live.
func (b *Controller) listClaims(ctx context.Context) (*networkingv1.IPAddressList, error) {
	return b.cluster.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: claimSelector})
}

// addressesIn is the set of the addresses whose objects a list has.
func addressesIn(list *networkingv1.IPAddressList) map[netip.Addr]bool {
	there := make(map[netip.Addr]bool, len(list.Items))
	for i := range list.Items {
		if a, _, ok := addressOf(&list.Items[i]); ok {
			there[a] = true
		}
	}
	return there
}

// seed enters every claim.
func (b *Controller) seed(ctx context.Context) error {
	if err := b.readReleased(ctx); err != nil {
		return err
	}
	known := b.remembers(ctx)
	objects, err := b.listClaims(ctx)
	if err != nil {
		return err
	}
	for i := range objects.Items {
		if err := claimFormat(&objects.Items[i]); err != nil {
			return fmt.Errorf("no VIP is given or taken away: %w", err)
		}
	}
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(services, func(x, y v1.Service) int { return lastEdit(&x).Compare(lastEdit(&y)) })
	holders := map[lb.ServiceKey]seeded{}
	for i := range services {
		if svc := &services[i]; b.isOurs(svc) {
			holders[keyOf(svc)] = seeded{requestOf(svc).Holder, len(holders)}
		}
	}
	b.seedClaims(objects.Items, holders)
	b.recall(ctx, known, objects.ResourceVersion, services)
	return nil
}

func (b *Controller) seedClaims(objects []networkingv1.IPAddress, holders map[lb.ServiceKey]seeded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range objects {
		b.seedClaim(&objects[i], holders)
	}
	b.log.Info("learnt which VIPs are held", "vips", len(b.claims))
}

// seeded is a Service that may hold something, and its place among them, who was edited
// last at the end.
type seeded struct {
	ipam.Holder
	place int
}

// lastEdit is when somebody last changed the Service itself, not its status.
func lastEdit(svc *v1.Service) time.Time {
	last := svc.CreationTimestamp.Time
	for _, f := range svc.ManagedFields {
		if f.Subresource == "" && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}

// seedClaim enters one claim. Its holders that are not Services of ours any more
// hold it until a live look confirms that. Of holders that were made to clash while
// nobody looked, who was edited last is the one that moves. b.mu is held.
func (b *Controller) seedClaim(obj *networkingv1.IPAddress, holders map[lb.ServiceKey]seeded) {
	c, ours := readClaim(obj)
	a, err := netip.ParseAddr(obj.Name)
	if !ours || err != nil {
		return
	}
	b.claims[a] = c
	place := func(k lb.ServiceKey) int {
		if h, known := holders[k]; known {
			return h.place
		}
		return len(holders) // it must stand in nobody's way
	}
	inOrder := slices.Clone(c.holders)
	slices.SortStableFunc(inOrder, func(x, y lb.ServiceKey) int { return cmp.Compare(place(x), place(y)) })
	for _, k := range inOrder {
		h, known := holders[k]
		if !known {
			h.Holder = ipam.Holder{Service: k}
			b.queue.Add(k.String())
		}
		b.enter(a, c.pool, h.Holder)
	}
	b.ledger.HeldSince(a, c.created)
}

// takeOver enters the addresses in the statuses of Services that nobody holds yet:
// another balancer's, or an older version's. Each becomes a claim when its Service
// is settled, which the start of the controllers sees to. An address that the
// Service would not get by asking for it is not taken over: anybody may have
// written it there. It is kept from others until the status is cleared.
func (b *Controller) takeOver(ctx context.Context) error {
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range services {
		if svc := &services[i]; b.isOurs(svc) {
			b.takeOverFrom(svc)
		}
	}
	for i := range services {
		b.keepStaleOfOtherLocked(&services[i])
	}
	b.keepAllStaleLocked() // of those too that are no load balancers any more
	return nil
}

func (b *Controller) takeOverFrom(svc *v1.Service) {
	r := requestOf(svc)
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		a, err := netip.ParseAddr(ingress.IP)
		if err != nil || b.holds(a, r.Service) {
			continue
		}
		if reason := b.ledger.MayTakeOver(a, r, b.now()); reason != "" {
			b.log.Info("a VIP in a status is not taken over", "service", r.Service, "vip", a, "reason", reason)
			b.keepStaleLocked(svc)
			continue
		}
		b.ledger.Hold(a, b.ledger.Pool(a), r.Holder)
		b.log.Info("took over a VIP from a status", "service", r.Service, "vip", a)
	}
}

// takeOverWaiting is takeOver for those that wait, once the pools have changed: another
// balancer may serve whom no pool let in before. What it gave them must not be given
// to others first. b.mu is held.
func (b *Controller) takeOverWaiting() {
	for _, w := range b.waiters(anyWaiter) {
		svc, err := b.services.Services(w.key.Namespace).Get(w.key.Name)
		if err == nil && b.isOurs(svc) && len(b.ledger.Holds(w.key)) == 0 {
			b.takeOverFrom(svc)
		}
	}
}

// setPools gives the ledger the pools in force, without the networks that the
// cluster gives Services' own addresses from, and serves those that wait.
func (b *Controller) setPools(ctx context.Context) error {
	inv := b.options.InForce.Get()
	if inv == nil {
		return errNotReady
	}
	list, err := b.cluster.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var cluster []netip.Prefix
	for _, c := range list.Items {
		for _, s := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(s); err == nil {
				cluster = append(cluster, p)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.SetPools(inv, cluster...)
	b.reportKept(inv)
	b.takeOverWaiting()
	if closed(b.ready) { // before, takeOver does: whose status it is to stay in comes first
		b.keepAllStaleLocked()
	}
	b.grantAllWaiting()
	return nil
}

// audit compares what is known with a live list from time to time: a watch can miss
// what a restored etcd never had.
func (b *Controller) audit(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := b.compare(ctx); err != nil {
			b.log.Error("cannot compare the VIPs that are held with the API server's", "err", err)
		}
	}, auditEvery)
}

func (b *Controller) compare(ctx context.Context) error {
	list, err := b.listClaims(ctx)
	if err != nil {
		return err
	}
	for i := range list.Items {
		if a, o, ok := addressOf(&list.Items[i]); ok {
			b.learn(a, o, false)
		}
	}
	b.queueHoldersWithoutService()
	b.queueStale()
	for _, a := range b.unlisted(addressesIn(list)) {
		if err := b.look(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// queueStale queues the Services whose statuses show what they do not hold.
func (b *Controller) queueStale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keepAllStaleLocked()
	for _, by := range b.stale {
		for _, k := range by {
			b.queue.Add(k.String())
		}
	}
}

// unlisted returns what is held and is not there: a list should have had it, or other
// programs hold it.
func (b *Controller) unlisted(there map[netip.Addr]bool) []netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []netip.Addr
	for _, c := range b.ledger.Claims() {
		if !there[c.Addr] {
			all = append(all, c.Addr)
		}
	}
	return all
}

// queueHoldersWithoutService queues the Services that hold something and are not in the
// cache.
func (b *Controller) queueHoldersWithoutService() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.ledger.Claims() {
		for _, h := range c.Holders {
			if _, err := b.services.Services(h.Service.Namespace).Get(h.Service.Name); err != nil {
				b.queue.Add(h.Service.String())
			}
		}
	}
}
