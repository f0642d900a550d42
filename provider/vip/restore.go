package vip

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// How long, and how often, is tried to claim anew what a backup does not have.
const (
	rewriteFor   = 5 * time.Second
	rewriteEvery = time.Second
)

// watchForRestore ends this process when the journal says that etcd was restored from a
// backup. A watch then goes on from a version that is yet to come, and says nothing for hours
// (kubernetes/kubernetes#107457), so all that this process knows of Services, Nodes and VIPs
// may never have been. What of it the next process cannot know is claimed anew first.
func (b *Controller) watchForRestore(ctx context.Context, restored <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-restored:
	}
	b.log.Error("the API server's store was restored from a backup; starting anew")
	retryForAWhile(ctx, b.log, b.rewriteMissing)
	b.options.Restart()
}

// retryForAWhile calls f until it succeeds, but not for long.
func retryForAWhile(ctx context.Context, log *slog.Logger, f func(context.Context) error) bool {
	start := time.Now()
	for {
		err := f(ctx)
		if err == nil {
			return true
		}
		if time.Since(start) > rewriteFor || !pause(ctx, rewriteEvery, nil) {
			log.Error("cannot claim anew the VIPs that the backup does not have", "err", err)
			return false
		}
	}
}

// rewriteMissing claims, for Services that the backup has, the VIPs that it does not know yet,
// and puts the VIPs of Services into quarantine that it does not have: machines may announce
// them still.
func (b *Controller) rewriteMissing(ctx context.Context) error {
	list, err := b.claims.List(ctx)
	if err != nil {
		return err
	}
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	missing := ask(b.store, func(s *ipam.State) []ipam.Holding { return s.Missing(addressesIn(list)) })
	return b.rewrite(ctx, missing, uidsOf(services))
}

// restoreFrom claims anew, if etcd was restored from a backup, what this process or its
// predecessor knew of VIPs and the backup does not. What cannot be claimed in time is held
// all the same: to have its object made is then up to whoever reconciles its Service.
func (b *Controller) restoreFrom(ctx context.Context, services []v1.Service) {
	before, restored := b.journal.BeforeRestore()
	if !restored {
		return
	}
	var missing []ipam.Holding
	b.apply(func(s *ipam.State) (e ipam.Effects) {
		missing, e = s.RestoreFrom(b.remembered(before, services), b.now())
		return e
	})
	b.log.Info("remembers VIPs that the backup does not have", "remembered", len(before), "kept", len(missing))
	if retryForAWhile(ctx, b.log, func(ctx context.Context) error { return b.rewrite(ctx, missing, uidsOf(services)) }) {
		b.journal.Forget()
	}
}

// remembered is what was known before a restore, sorted by address, with the Services that are
// there still.
func (b *environment) remembered(before map[netip.Addr]claim.Entry, services []v1.Service) (all []ipam.Remembered) {
	live := map[lb.ServiceKey]*v1.Service{}
	for i := range services {
		if svc := &services[i]; b.isOurs(svc) {
			live[keyOf(svc)] = svc
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(before), netip.Addr.Compare) {
		e := before[a]
		if len(e.Holders) == 0 {
			continue
		}
		r := ipam.Remembered{Addr: a, Pool: e.Pool, Former: e.Holders[0]}
		for i, k := range e.Holders {
			if svc := live[k]; svc != nil && (i > 0 || e.UID == "" || e.UID == string(svc.UID)) {
				r.Holders = append(r.Holders, requestOf(svc).Holder)
			}
		}
		all = append(all, r)
	}
	return all
}

func uidsOf(services []v1.Service) map[lb.ServiceKey]string {
	uids := make(map[lb.ServiceKey]string, len(services))
	for i := range services {
		uids[keyOf(&services[i])] = string(services[i].UID)
	}
	return uids
}

// rewrite has the API server record what Services hold, but for those that are no more, and
// writes down what is in quarantine. A failure does not keep it from the others.
func (b *Controller) rewrite(ctx context.Context, missing []ipam.Holding, uids map[lb.ServiceKey]string) error {
	errs := make([]error, len(missing))
	workqueue.ParallelizeUntil(ctx, claimWorkers, len(missing), func(i int) {
		c := missing[i]
		for _, h := range c.Holders {
			if uid, lives := uids[h.Service]; lives {
				_, err := b.acquire(ctx, c.Addr, c.Pool, h.Service, uid)
				errs[i] = errors.Join(errs[i], err)
				continue
			}
			b.apply(func(s *ipam.State) ipam.Effects {
				_, e := s.ToRelease(c.Addr, h.Service, "", ipam.Object{}, b.now())
				return e
			})
		}
	})
	_, err := b.released.write(ctx)
	return errors.Join(firstOf(errs), ctx.Err(), err)
}

// firstOf returns the first error: with thousands of addresses they are one and the same.
func firstOf(errs []error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
