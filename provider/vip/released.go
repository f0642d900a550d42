package vip

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/wake"
)

const (
	releasedEvery = 2 * time.Second  // a write at most, however many are released
	countedEvery  = 10 * time.Second // a write at least, which a restore of etcd is told from
)

// releasedKeeper writes down which addresses are in quarantine, and removes the objects of
// released ones once it is: the next leader knows of them from one of the two.
type releasedKeeper struct {
	balancer *Controller
	last     claim.Released     // as it was read or written last
	others   []ipam.Quarantined // that another leader wrote down: not ours to forget, though we may have it as held
}

// run writes the ConfigMap until ctx ends: at once when it changed but not too often, and now and
// then to have been counted. What there is no room for keeps its object until there is.
func (r *releasedKeeper) run(ctx context.Context) {
	for {
		if _, err := r.write(ctx); err != nil {
			r.balancer.log.Error("cannot write down which VIPs were released; will try again", "err", err)
			r.balancer.writeReleasedSoon()
		}
		if !wake.After(ctx, releasedEvery) || !pause(ctx, countedEvery-releasedEvery, r.balancer.quarantineChanged) {
			return
		}
	}
}

// pause waits for so long, or until something changed; it reports false once ctx has ended.
func pause(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}

// write writes down the addresses in quarantine, and removes the objects of those that were released and
// are written down, or need not be. It reports whether there was no room for some.
func (r *releasedKeeper) write(ctx context.Context) (full bool, err error) {
	left, releasing, err := r.writeDown(ctx)
	if err != nil {
		return false, err
	}
	if len(left) == 0 {
		r.balancer.finishRestore()
	}
	r.removeObjects(ctx, slices.DeleteFunc(releasing, func(o ipam.Object) bool { return slices.Contains(left, o.Addr) }))
	return len(left) > 0, nil
}

// writeDown writes down the addresses in quarantine. It returns those that there was no room for, and the
// objects of those that were released and still have one.
func (r *releasedKeeper) writeDown(ctx context.Context) (left []netip.Addr, releasing []ipam.Object, err error) {
	controller := r.balancer
	var all []ipam.Quarantined
	all, releasing = r.quarantined()
	for range claimAttempts {
		now, err := controller.journal.WriteReleased(ctx, r.last, all)
		switch {
		case err == nil:
			r.last = now
			return addressesOf(all[len(now.Quarantined):]), releasing, nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
			return nil, nil, err
		}
		if now, err = r.read(ctx); err != nil {
			return nil, nil, err
		}
		controller.note(func(s *ipam.State) { s.Quarantine(now.Quarantined, controller.now()) })
		all, releasing = r.quarantined()
	}
	return nil, nil, errContended
}

// quarantined is [ipam.State.Quarantined], and what another leader wrote down besides.
func (r *releasedKeeper) quarantined() (all []ipam.Quarantined, releasing []ipam.Object) {
	now, ours := r.balancer.now(), map[netip.Addr]bool{}
	r.balancer.note(func(s *ipam.State) { all, releasing = s.Quarantined(now) })
	for _, x := range all {
		ours[x.Addr] = true
	}
	r.others = slices.DeleteFunc(r.others, func(o ipam.Quarantined) bool { return !o.Until.After(now) })
	for _, o := range r.others {
		if !ours[o.Addr] {
			all = append(all, o)
		}
	}
	return all, releasing
}

// read reads the ConfigMap of released addresses. Where somebody has deleted it, which is no restore of etcd,
// the count of writes goes on.
func (r *releasedKeeper) read(ctx context.Context) (claim.Released, error) {
	now, err := r.balancer.journal.ReadReleased(ctx)
	if errors.Is(err, claim.ErrUnreadable) {
		r.balancer.log.Error("discarded the record of released VIPs", "err", err)
		err = nil
	}
	if err != nil {
		return now, err
	}
	if now.Writes == 0 {
		now.Writes = r.balancer.journal.Writes()
	}
	latest := r.balancer.now().Add(ipam.QuarantineTime)
	for i, x := range now.Quarantined {
		if x.Until.After(latest) { // a clock was ahead
			now.Quarantined[i].Until = latest
		}
	}
	r.last, r.others = now, slices.Clone(now.Quarantined)
	return now, nil
}

// removeObjects deletes the objects of addresses that were released, unless they were claimed
// again.
func (r *releasedKeeper) removeObjects(ctx context.Context, releasing []ipam.Object) {
	workqueue.ParallelizeUntil(ctx, claimWorkers, len(releasing), func(i int) {
		if err := r.removeObject(ctx, releasing[i]); err != nil {
			r.balancer.log.Error("cannot remove the claim of a VIP that was released; will try again", "vip", releasing[i].Addr, "err", err)
			r.balancer.writeReleasedSoon()
		}
	})
}

// removeObject deletes an object as it was when it was written down that its address rests.
func (r *releasedKeeper) removeObject(ctx context.Context, object ipam.Object) error {
	controller := r.balancer
	defer controller.ofAddress.lock(object.Addr.String())()
	now := ask(controller.store, func(s *ipam.State) *ipam.Object { return s.Releasing(object.Addr) })
	if now == nil || now.Version != object.Version {
		return nil
	}
	if resumed, err := controller.resumeReported(ctx, object); resumed || err != nil {
		return err
	}
	err := controller.claims.Delete(ctx, object)
	if err == nil {
		controller.note(func(s *ipam.State) { s.Deleted(object) })
	}
	_, err = controller.wrote(ctx, object.Addr, "", nil, err)
	return err
}

func addressesOf(all []ipam.Quarantined) []netip.Addr {
	addrs := make([]netip.Addr, len(all))
	for i, r := range all {
		addrs[i] = r.Addr
	}
	return addrs
}
