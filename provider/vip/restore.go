package vip

import (
	"cmp"
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
// may never have been. What of it the next process cannot know is claimed anew first, as by
// one that begins: nothing else is done meanwhile.
func (b *Controller) watchForRestore(ctx context.Context, restored <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-restored:
	}
	b.log.Error("the API server's store was restored from a backup; starting anew")
	b.stop()
	b.serving.Wait() // what somebody decided by what was known before must not come into what is read now
	retryForAWhile(ctx, b.log, func(ctx context.Context) error {
		_, err := b.load(ctx)
		return err
	})
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

// restoreFrom claims anew, if etcd was restored from a backup, what this process or its
// predecessor knew of VIPs and the backup does not. What cannot be claimed in time is held
// all the same: to have its object made is then up to whoever reconciles its Service.
func (b *Controller) restoreFrom(ctx context.Context, services []v1.Service) {
	before, restored := b.journal.BeforeRestore()
	if !restored {
		return
	}
	var missing []ipam.Remembered
	b.apply(func(s *ipam.State) (e ipam.Effects) {
		missing, e = s.RestoreFrom(b.remembered(before, services), b.now())
		return e
	})
	b.log.Info("remembers VIPs that the backup does not have", "remembered", len(before), "kept", len(missing))
	if retryForAWhile(ctx, b.log, func(ctx context.Context) error { return b.rewrite(ctx, missing) }) {
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
				r.Holders = append(r.Holders, requestOf(svc))
			}
		}
		all = append(all, r)
	}
	return all
}

// rewrite has the API server record what Services hold, and writes down what is in quarantine. A
// failure does not keep it from the others; it is one and the same with thousands of addresses.
func (b *Controller) rewrite(ctx context.Context, missing []ipam.Remembered) error {
	errs := make([]error, len(missing))
	workqueue.ParallelizeUntil(ctx, claimWorkers, len(missing), func(i int) {
		for _, h := range missing[i].Holders {
			_, err := b.acquire(ctx, missing[i].Addr, missing[i].Pool, h.Service, h.UID)
			errs[i] = errors.Join(errs[i], err)
		}
	})
	full, err := b.released.write(ctx)
	if full {
		err = errors.New("there is no room to write down all that is in quarantine")
	}
	return errors.Join(cmp.Or(errs...), ctx.Err(), err)
}
