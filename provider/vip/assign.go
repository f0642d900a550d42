package vip

import (
	"context"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/lb/ipam"
)

// assign decides which VIPs a Service is to have, acquires them, and releases those that it is
// no longer to have and its status does not show: while it does, the Service holds them too,
// and is reconciled again once its status is written. A decision that is refused is no error.
func (b *Controller) assign(ctx context.Context, svc *v1.Service) (ipam.Decision, error) {
	request := requestOf(svc)
	defer b.ofService.lock(request.Service)()
	if err := b.refreshNamespace(ctx, request.Service.Namespace); err != nil {
		return ipam.Decision{}, err
	}
	if err := b.refreshShown(ctx, request); err != nil {
		return ipam.Decision{}, err
	}
	for range claimAttempts {
		decision := b.decide(request)
		if len(decision.Unreported) > 0 {
			shown, err := b.releaseUnreported(ctx, request, decision.Unreported)
			if err == nil && len(shown) > 0 {
				err = staleService(request.Service)
			}
			if err != nil {
				return decision, err
			}
			continue
		}
		acquired, err := b.acquireAll(ctx, request, decision)
		if err != nil {
			return decision, err
		}
		if !acquired {
			continue
		}
		b.settle(request, decision)
		_, err = b.releaseUnreported(ctx, request, decision.Release)
		return decision, err
	}
	return ipam.Decision{}, errContended
}

// refreshShown reads live the claims of what a status shows and its Service is not known to
// hold: another leader, or one that is gone, may have given it a moment ago. It is what clients
// know the Service by.
func (b *Controller) refreshShown(ctx context.Context, r ipam.Request) error {
	for _, a := range ask(b.store, func(s *ipam.State) []netip.Addr { return s.Unheld(r.Service, r.Shown) }) {
		if err := b.refresh(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// decide asks for what a Service is to have.
func (b *Controller) decide(r ipam.Request) (d ipam.Decision) {
	b.apply(func(s *ipam.State) (e ipam.Effects) {
		d, e = s.Request(r, b.now())
		return e
	})
	return d
}

// acquireAll acquires the VIPs of a decision. It reports false when somebody else holds one of
// them; the state then knows, and has undone what was not acquired.
func (b *Controller) acquireAll(ctx context.Context, r ipam.Request, d ipam.Decision) (bool, error) {
	for i, v := range d.VIPs {
		ok, err := b.acquire(ctx, v.Addr, v.Pool, r.Service, r.UID, slices.Contains(r.Shown, v.Addr))
		if err != nil || !ok {
			b.apply(func(s *ipam.State) ipam.Effects { return s.Revert(r.Service, d.VIPs[i:]) })
			return false, err
		}
	}
	return true, nil
}

// settle notes that a decision was carried out, and is to be told.
func (b *Controller) settle(r ipam.Request, d ipam.Decision) {
	b.apply(func(s *ipam.State) ipam.Effects { return s.Settle(r, d, b.now()) })
}

// releaseUnreported releases those addresses of a Service that its status does not show, and
// returns the others. They are released once the status is written. Where the Service asks for
// something else by now, another leader may have given it one of them a moment ago.
func (b *Controller) releaseUnreported(ctx context.Context, request ipam.Request, all []netip.Addr) (shown []netip.Addr, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	now, err := b.reported(ctx, request.Service, request.UID)
	if err != nil {
		return nil, err
	}
	if now != nil && (!b.isOurs(now) || !asksTheSame(request, requestOf(now))) {
		return nil, errCacheIsLate(request.Service)
	}
	shown = showsIn(now, all)
	return shown, b.releaseAll(ctx, request.Service, request.UID, without(all, shown...))
}
