package vip

import (
	"context"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// watchClaims has the ledger follow the IPAddress objects of ours until ctx ends, and
// reports whether it knows all that there are. The objects themselves are not kept, as
// an informer would.
func (b *Controller) watchClaims(ctx context.Context) bool {
	objects := b.cluster.Client.NetworkingV1().IPAddresses()
	listing := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = claimSelector
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = claimSelector
			w, err := objects.Watch(ctx, o)
			if err == nil {
				b.watchesAnew()
			}
			return w, err
		},
	}, b.cluster.Client)
	store := newClaimStore(b)
	go cache.NewReflector(listing, &networkingv1.IPAddress{}, store, 0).RunWithContext(ctx)
	select {
	case <-ctx.Done():
		return false
	case <-store.filled:
		return true
	}
}

// watchesAnew notes that a watch had to begin anew.
func (b *Controller) watchesAnew() {
	select {
	case b.rewatched <- struct{}{}:
	default:
	}
}

// learn takes over what an object says, unless a later one of that address is known, be
// it the same one or its successor. What was read live counts whatever its resource
// version, which goes back when etcd is restored. Of an object of a newer version's what was
// known before holds.
func (b *Controller) learn(a netip.Addr, obj *networkingv1.IPAddress, live bool) {
	if err := claimFormat(obj); err != nil {
		b.log.Error("a newer version wrote who holds a VIP; what was known before holds", "vip", a, "err", err)
		return
	}
	c, ours := readClaim(obj)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ours {
		delete(b.claims, a)
		b.foreign[a] = true
		b.ledger.Block(a)
		return
	}
	if old, known := b.claims[a]; known && !live && !newer(c.resourceVersion, old.resourceVersion) {
		return
	}
	if old, known := b.claims[a]; known && b.released[a] != (lb.ServiceKey{}) && old.resourceVersion == c.resourceVersion {
		return
	}
	delete(b.released, a) // somebody took it again
	delete(b.foreign, a)
	b.enterAll(a, c)
	b.check(c)
}

// enterAll has the ledger know all whom a claim names. b.mu is held.
func (b *Controller) enterAll(a netip.Addr, c claim) {
	b.claims[a] = c
	for _, k := range c.holders {
		b.admit(a, c.pool, k)
	}
	b.ledger.HeldSince(a, c.created)
}

// check has the parent of a claim looked at if the claim names another UID than the
// Service has: its machines would take the VIP for an earlier Service's. b.mu is held.
func (b *Controller) check(c claim) {
	svc, err := b.services.Services(c.parent.Namespace).Get(c.parent.Name)
	if err == nil && c.heldBy(c.parent) && c.serviceUID != svc.UID {
		b.queue.Add(c.parent.String())
	}
}

// admit notes a holder that the ledger does not know. It goes before those whom no object
// names: where it cannot share with them, they look for another address. b.mu is held.
func (b *Controller) admit(a netip.Addr, pool string, k lb.ServiceKey) {
	if b.holds(a, k) {
		return
	}
	holder := ipam.Holder{Service: k}
	if svc, err := b.services.Services(k.Namespace).Get(k.Name); err == nil && b.isOurs(svc) {
		holder = requestOf(svc).Holder
	}
	if b.ledger.MayJoin(a, holder) != "" {
		b.evictUnnamed(a)
	}
	b.enter(a, pool, holder)
	b.queue.Add(k.String())
}

// evictUnnamed forgets who was granted a here and is not named by its object: another
// leader, or one that is gone, was faster. b.mu is held.
func (b *Controller) evictUnnamed(a netip.Addr) {
	c, _ := b.ledger.Claim(a)
	for _, h := range c.Holders {
		if !b.claims[a].heldBy(h.Service) {
			b.forget(a, h.Service)
			b.queue.Add(h.Service.String())
		}
	}
}

// forget strikes out a holder that was entered and named by no object. An address that
// rests on is written down anew: it may have been left out meanwhile. b.mu is held.
func (b *Controller) forget(a netip.Addr, k lb.ServiceKey) {
	if b.ledger.Forget(a, k) {
		b.writeReleasedSoon()
	}
	b.blockStale(a)
}

// enter notes a holder. One that may not share with those before it is entered
// without its ports and key, and so moves when it is settled. b.mu is held.
func (b *Controller) enter(a netip.Addr, pool string, h ipam.Holder) {
	if c, held := b.ledger.Claim(a); held && len(c.Holders) > 0 && b.ledger.MayJoin(a, h) != "" {
		h = ipam.Holder{Service: h.Service}
	}
	b.ledger.Hold(a, pool, h)
}

// holds reports whether the ledger has k as a holder of a. b.mu is held.
func (b *Controller) holds(a netip.Addr, k lb.ServiceKey) bool {
	for _, x := range b.ledger.Holds(k) {
		if x == a {
			return true
		}
	}
	return false
}

// vanished notes that an object is gone, the one of that uid or any. Services that
// hold the address take it again.
func (b *Controller) vanished(a netip.Addr, uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, known := b.claims[a]; known && uid != "" && c.uid != uid {
		return
	}
	delete(b.claims, a)
	delete(b.released, a)
	if b.foreign[a] {
		delete(b.foreign, a)
		b.unblock(a)
	}
	c, _ := b.ledger.Claim(a)
	for _, h := range c.Holders {
		b.queue.Add(h.Service.String())
	}
}

// release notes that a Service no longer holds a, and grants it to those that wait.
func (b *Controller) release(a netip.Addr, k lb.ServiceKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseLocked(a, k)
}

// releaseLocked is release with b.mu held. It reports whether nobody holds a any more.
func (b *Controller) releaseLocked(a netip.Addr, k lb.ServiceKey) bool {
	held := b.holds(a, k)
	if !b.ledger.Release(a, k, b.now()) {
		if held {
			b.grantSharers(k) // who clashed with it may join the others
		}
		return false
	}
	if !b.blockStale(a) {
		b.grantFreed(a)
	}
	b.writeReleasedSoon()
	return true
}
