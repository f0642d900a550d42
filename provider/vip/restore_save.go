package vip

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// How long, and how often, is tried to save what a backup does not have.
const (
	saveFor   = 5 * time.Second
	saveEvery = time.Second
)

// insistFor calls f until it succeeds, but not for long, and returns its last error.
func insistFor(ctx context.Context, f func(context.Context) error) error {
	for start := time.Now(); ; {
		err := f(ctx)
		if err == nil || time.Since(start) > saveFor {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(saveEvery):
		}
	}
}

// save takes, for Services that the backup has, the VIPs that it does not know yet,
// and has the VIPs rest of Services that it does not have: machines may announce
// them still.
func (b *Controller) save(ctx context.Context) error {
	objects, err := b.listClaims(ctx)
	if err != nil {
		return err
	}
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	return b.saveClaims(ctx, b.lost(addressesIn(objects)), uidsOf(services))
}

func uidsOf(services []v1.Service) map[lb.ServiceKey]types.UID {
	uids := make(map[lb.ServiceKey]types.UID, len(services))
	for i := range services {
		uids[keyOf(&services[i])] = services[i].UID
	}
	return uids
}

// lost returns the claims that have no object, and forgets that they ever had one.
func (b *Controller) lost(there map[netip.Addr]bool) (all []ipam.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.ledger.Claims() {
		if !there[c.Addr] && !b.foreign[c.Addr] {
			delete(b.claims, c.Addr)
			all = append(all, c)
		}
	}
	return all
}

// saveClaims makes the API server's word agree with what the ledger has of these claims,
// but for holders that are no more, and writes down what rests. A failure does not keep
// it from the others.
func (b *Controller) saveClaims(ctx context.Context, claims []ipam.Claim, uids map[lb.ServiceKey]types.UID) error {
	errs := make([]error, len(claims))
	workqueue.ParallelizeUntil(ctx, claimWorkers, len(claims), func(i int) { errs[i] = b.saveClaim(ctx, claims[i], uids) })
	data, _, _ := b.releasedData()
	return firstOf(append(errs, ctx.Err(), b.writeReleased(ctx, data)))
}

// firstOf returns the first error, and how many more there are: with thousands of
// addresses they are one and the same.
func firstOf(errs []error) error {
	var first error
	more := 0
	for _, err := range errs {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Errorf("%w (and %d more errors)", first, more)
	}
	return first
}

func (b *Controller) saveClaim(ctx context.Context, c ipam.Claim, uids map[lb.ServiceKey]types.UID) error {
	var errs []error
	for _, h := range c.Holders {
		if uid, lives := uids[h.Service]; lives {
			_, err := b.acquire(ctx, c.Addr, c.Pool, h.Service, uid)
			errs = append(errs, err)
			continue
		}
		b.release(c.Addr, h.Service)
	}
	return firstOf(errs)
}

// remembers returns the newest resource version that this process knows, once its
// recollection is there.
func (b *Controller) remembers(ctx context.Context) (version string) {
	r := b.recollection
	if r == nil {
		return ""
	}
	limit := time.NewTimer(loadedWithin)
	defer limit.Stop()
	select {
	case <-r.loaded:
	case <-limit.C:
		b.log.Error("cannot read in time which VIPs were held before", "file", r.file)
	case <-ctx.Done():
	}
	return r.known()
}

// recall saves, if etcd was restored from a backup, what this process or its predecessor
// knew of VIPs and the backup does not. known is what remembers returned before the
// objects and Services were listed, now the version of the list. What it cannot save in
// time is held all the same; to have its object made is then up to whoever settles its
// Service.
func (b *Controller) recall(ctx context.Context, known, now string, services []v1.Service) {
	if b.recollection == nil {
		return
	}
	before, restored := b.recollection.recall(known, now)
	if !restored {
		return
	}
	lost := b.enterLost(before, services)
	b.log.Info("remembers VIPs that the backup does not have", "remembered", len(before), "kept", len(lost))
	if err := insistFor(ctx, func(ctx context.Context) error { return b.saveClaims(ctx, lost, uidsOf(services)) }); err != nil {
		b.log.Error("cannot save what is known of VIPs that the backup does not have", "err", err)
		return
	}
	b.recollection.forget()
}

// enterLost enters who held a VIP before a restore and is named by no object now, if the
// Service is there still and has no other VIP of the family, and returns what was entered.
// An address that nobody holds then rests.
func (b *Controller) enterLost(before map[netip.Addr]remembered, services []v1.Service) (kept []ipam.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	live := map[lb.ServiceKey]*v1.Service{}
	for i := range services {
		if svc := &services[i]; b.isOurs(svc) {
			live[keyOf(svc)] = svc
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(before), netip.Addr.Compare) {
		r, c := before[a], ipam.Claim{Addr: a, Pool: before[a].Pool}
		object, there := b.claims[a]
		for i, k := range r.Holders {
			svc := live[k]
			if svc == nil || i == 0 && r.UID != "" && r.UID != svc.UID || object.heldBy(k) || b.holdsOther(a, k) {
				continue
			}
			h := requestOf(svc).Holder
			if there && b.ledger.MayJoin(a, h) != "" {
				continue
			}
			b.enter(a, r.Pool, h)
			b.queue.Add(k.String())
			c.Holders = append(c.Holders, h)
		}
		switch {
		case len(c.Holders) > 0:
			kept = append(kept, c)
		case !there && len(r.Holders) > 0:
			b.ledger.Rest(ipam.Rested{Addr: a, Owner: r.Holders[0], Until: b.now().Add(ipam.RestTime)})
		}
	}
	return kept
}

// holdsOther reports whether k holds another address of a's family. b.mu is held.
func (b *Controller) holdsOther(a netip.Addr, k lb.ServiceKey) bool {
	for _, x := range b.ledger.Holds(k) {
		if x != a && lb.FamilyOf(x) == lb.FamilyOf(a) {
			return true
		}
	}
	return false
}
