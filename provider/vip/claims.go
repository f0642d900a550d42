package vip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/endpoints"
)

const (
	claimAttempts = 8
	claimWorkers  = 16  // how many objects are written at once, where many have to be
	foreignMost   = 100 // how many addresses of other programs are followed
)

// errContended is the error after losing every race for an address.
var errContended = errors.New("other programs keep taking or changing the addresses")

var errOtherService = errors.New("there is another Service of that name now, or it holds its VIP anew")

// staleService is the error of whoever acts on a Service that is another one by now.
func staleService(k lb.ServiceKey) error {
	return apierrors.NewConflict(v1.Resource("services"), k.String(), errOtherService)
}

// errCacheIsLate is a conflict, as that of a write would be.
func errCacheIsLate(k lb.ServiceKey) error {
	return apierrors.NewConflict(v1.Resource("services"), k.String(), errors.New("the cache has not seen yet what it asks for now"))
}

// acquire has the API server record that a Service holds a VIP that it was granted. It
// reports false if somebody else does; the state then knows. shown: its status shows the VIP.
func (b *store) acquire(ctx context.Context, addr netip.Addr, pool string, key lb.ServiceKey, uid string, shown bool) (bool, error) {
	defer b.ofAddress.lock(addr.String())()
	defer b.homes.made(addr)
	for range claimAttempts {
		asked := b.deletionsTold()
		write := ask(b, func(s *ipam.State) ipam.Write { return s.ToHold(addr, key, uid, shown) })
		var obj *networkingv1.IPAddress
		var err error
		switch write.Verb {
		case ipam.Nothing:
			return true, nil
		case ipam.Refused:
			return false, nil
		case ipam.Another, ipam.Late: // of a release alone
		case ipam.Create:
			obj, err = b.claims.Create(ctx, addr, pool, key, uid, b.homesFor(addr, key))
		case ipam.Update:
			if write.Confirm {
				if err := b.confirm(ctx, key, uid); err != nil {
					return false, err
				}
			}
			if write.Released {
				if resumed, err := b.resumeReported(ctx, write.Object); err != nil {
					return false, err
				} else if resumed {
					continue
				}
			}
			obj, err = b.claims.Update(ctx, write)
		}
		if known, err := b.wrote(ctx, addr, asked, obj, err); known || err != nil {
			return known, err
		}
	}
	return false, errContended
}

// confirm asks the API server whether a Service still is the one of that UID: a
// process that was stopped for a while may know an earlier one of its name.
func (b *store) confirm(ctx context.Context, k lb.ServiceKey, uid string) error {
	svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if err == nil && string(svc.UID) != uid {
		err = staleService(k)
	}
	return err
}

// releaseAll releases several addresses of a Service. What another Service of the name holds
// is not this one's to release.
func (b *store) releaseAll(ctx context.Context, k lb.ServiceKey, uid string, all []netip.Addr) error {
	for _, a := range all {
		done, err := b.release(ctx, a, k, uid)
		if err == nil && !done {
			err = staleService(k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release is releaseAs. It also releases what an earlier Service of this name claimed, once
// that Service is confirmed gone.
func (b *store) release(ctx context.Context, addr netip.Addr, key lb.ServiceKey, uid string) (bool, error) {
	done, err := b.releaseAs(ctx, addr, key, uid)
	if done || err != nil {
		return done, err
	}
	switch err := b.confirm(ctx, key, uid); {
	case apierrors.IsConflict(err):
		return false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, err
	}
	return b.releaseAs(ctx, addr, key, "")
}

// releaseAs records in the API server that the Service of that UID, or any of its name, no
// longer holds an address, and frees it in the state. An address that another Service of the name holds is left
// alone: it then reports false. So is one that was claimed after the call: it is not the one that was to
// go.
func (b *store) releaseAs(ctx context.Context, addr netip.Addr, key lb.ServiceKey, uid string) (bool, error) {
	first := b.object(addr)
	defer b.ofAddress.lock(addr.String())()
	for range claimAttempts {
		asked := b.deletionsTold()
		var write ipam.Write
		b.apply(func(s *ipam.State) (e ipam.Effects) {
			write, e = s.ToRelease(addr, key, uid, first, b.now())
			return e
		})
		switch write.Verb {
		case ipam.Nothing:
			return true, nil
		case ipam.Another:
			return false, nil
		case ipam.Late:
			return false, staleService(key)
		case ipam.Create, ipam.Update, ipam.Refused: // a release updates
		}
		obj, err := b.claims.Update(ctx, write)
		if _, err := b.wrote(ctx, addr, asked, obj, err); err != nil {
			return false, err
		}
	}
	return false, errContended
}

// wrote takes in the answer to a write, and reads the object anew when it failed because
// it is not as it was known, or may be gone by now. Any other failure it returns. obj is nil if there is none
// now, asked is [store.deletionsTold] from before the write. It reports whether the object that was
// written, or a later version of it, is known.
func (b *store) wrote(ctx context.Context, addr netip.Addr, asked string, obj *networkingv1.IPAddress, err error) (known bool, _ error) {
	switch {
	case err == nil && obj == nil:
		return false, nil
	case err == nil:
		o, ours := claim.Read(obj)
		known = !ours || b.unlessDoubtful(o, asked, func(s *ipam.State) ipam.Effects { return s.ObserveWrite(o, b.holdersOf(s.Newcomers(o))) })
		if known {
			return true, nil
		}
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("claim of %v: %w", addr, err)
	}
	return false, b.refresh(ctx, addr)
}

// deletionsTold is the mark by which an answer to what is asked after this call is judged.
func (b *store) deletionsTold() string { return ask(b, (*ipam.State).DeletionsTold) }

// unlessDoubtful changes the state by an object in an answer, and reports false, and does nothing, where the
// object may be gone by now.
func (b *store) unlessDoubtful(o ipam.Object, asked string, verb func(*ipam.State) ipam.Effects) bool {
	doubtful := false
	b.apply(func(s *ipam.State) ipam.Effects {
		if doubtful = s.IsDoubtful(o, asked); doubtful {
			return ipam.Effects{}
		}
		return verb(s)
	})
	return !doubtful
}

// refresh reads one object live, and again where it may be gone once the answer is there.
func (b *store) refresh(ctx context.Context, addr netip.Addr) error {
	for range claimAttempts {
		if known, err := b.read(ctx, addr); known || err != nil {
			return err
		}
	}
	return errContended
}

// read reads one object live. It reports false where the object may be gone by now.
func (b *store) read(ctx context.Context, addr netip.Addr) (known bool, _ error) {
	asked := b.deletionsTold()
	obj, err := b.claims.Get(ctx, addr)
	switch {
	case apierrors.IsNotFound(err):
		if err := b.checkFewer(ctx, addr); err != nil {
			return false, err
		}
		sink{b}.ObserveDeleted(addr, "", "")
		return true, nil
	case err == nil && claim.LostLabel(obj):
		b.log.Warn("putting back the label that a claim has lost", "vip", addr)
		obj, err = b.claims.Label(ctx, obj)
	}
	if err != nil {
		return false, fmt.Errorf("claim of %v: %w", addr, err)
	}
	o, _ := claim.Read(obj)
	if err := b.checkFewer(ctx, addr, o.Holders...); err != nil {
		return false, err
	}
	return b.observe(obj, asked, true), nil
}

// checkFewer asks whether etcd was restored where a live read names fewer holders of an address
// than were known: what was known is then remembered before it is forgotten here. Of an address
// that was released nobody has to be remembered.
func (b *store) checkFewer(ctx context.Context, a netip.Addr, now ...lb.ServiceKey) error {
	held := ask(b, func(s *ipam.State) bool { c, _ := s.Holding(a); return len(c.Holders) > 0 })
	if !held || len(without(b.object(a).Holders, now...)) == 0 {
		return nil
	}
	return b.journal.Check(ctx)
}

// observe takes in an object in an answer; asked is [store.deletionsTold] from before the request. It
// reports false, and does nothing, where the object may be gone by now.
func (b *store) observe(obj *networkingv1.IPAddress, asked string, live bool) bool {
	object, ours := claim.Read(obj)
	switch err := claim.CheckFormat(obj); {
	case err != nil:
		b.log.Error("cannot read a claim that a newer version wrote; what was known before holds", "vip", obj.Name, "err", err)
	case ours && !b.unlessDoubtful(object, asked, b.observation(object, live)):
		return false
	case ours:
		b.lookAtParent(object)
	case object.Addr.IsValid():
		sink{b}.ObserveForeign(object.Addr)
	}
	return true
}

// followForeign waits until another program gives up an address of a pool, of which the watch of
// claims does not tell. Of very many the audit tells.
func (b *store) followForeign(addr netip.Addr) {
	b.following.Lock()
	defer b.following.Unlock()
	if len(b.followed) >= foreignMost || b.followed[addr] || b.ctx == nil || ask(b, func(s *ipam.State) bool { return s.Pool(addr) == "" }) {
		return
	}
	b.followed[addr] = true
	go b.claims.Follow(b.ctx, addr, func() {
		b.following.Lock()
		delete(b.followed, addr)
		b.following.Unlock()
		if err := b.refresh(b.ctx, addr); err != nil && b.ctx.Err() == nil {
			b.log.Error("cannot learn whether another program has given up an address", "vip", addr, "err", err)
		}
	})
}

// observation changes the state by an object.
func (b *store) observation(o ipam.Object, live bool) func(*ipam.State) ipam.Effects {
	return func(s *ipam.State) ipam.Effects { return s.Observe(o, b.holdersOf(s.Newcomers(o)), live) }
}

// lookAtParent queues the Service that an object was made for where another one of its name has the
// address: machines would take the VIP for the earlier one's.
func (b *store) lookAtParent(o ipam.Object) {
	if svc, err := b.services.Services(o.Parent.Namespace).Get(o.Parent.Name); err == nil && o.HeldBy(o.Parent) && o.ParentUID != string(svc.UID) {
		b.queue.Add(o.Parent.String())
	}
}

// holdersOf returns those of the Services that are in the cache and Plinth's to serve, as holders.
func (b *store) holdersOf(services []lb.ServiceKey) (all []ipam.Holder) {
	for _, k := range services {
		if svc, err := b.services.Services(k.Namespace).Get(k.Name); err == nil && b.isOurs(svc) {
			all = append(all, requestOf(svc).Holder)
		}
	}
	return all
}

// resumeReported lets the holders that its object names hold a released address again, if the status of
// one of them shows it again: another leader serves that Service. It reports whether one does.
func (b *store) resumeReported(ctx context.Context, o ipam.Object) (bool, error) {
	shown, err := b.isReported(ctx, o)
	if shown {
		b.apply(func(s *ipam.State) ipam.Effects { return s.Resume(o, b.holdersOf(s.Newcomers(o))) })
	}
	return shown, err
}

// isReported reports whether a Service that an object names has its address in the status, where
// Plinth writes that status.
func (b *store) isReported(ctx context.Context, object ipam.Object) (bool, error) {
	for _, k := range object.Holders {
		svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return false, err
		case b.served(svc) && slices.Contains(endpoints.ShownBy(svc), object.Addr):
			return true, nil
		}
	}
	return false, nil
}

// object returns the object of an address; zero: there is none.
func (b *store) object(a netip.Addr) ipam.Object {
	return ask(b, func(s *ipam.State) ipam.Object { return s.Object(a) })
}

// sink is told of claims by the journal while this process leads.
type sink struct{ b *store }

// Observe takes in an object as a list or a watch shows it.
func (s sink) Observe(o ipam.Object) {
	before := s.b.object(o.Addr)
	s.b.apply(s.b.observation(o, false))
	s.b.lookAtParent(o)
	s.b.recordOwner(before, o)
}

// ObserveForeign records that an address is another program's.
func (s sink) ObserveForeign(a netip.Addr) {
	s.b.note(func(s *ipam.State) { s.ObserveForeign(a) })
	s.b.followForeign(a)
}

// ObserveDeleted records that an object is gone, the one of that UID or any, at that resource version of the
// watch; empty: a read says so.
func (s sink) ObserveDeleted(a netip.Addr, uid, version string) {
	b := s.b
	b.apply(func(s *ipam.State) ipam.Effects { return s.ObserveDeleted(a, uid, version, b.now()) })
}

// ObserveList records that all are listed anew.
func (s sink) ObserveList(version string) {
	s.b.note(func(s *ipam.State) { s.ObserveList(version) })
}

// Objects returns all that are known.
func (s sink) Objects() []ipam.Object { return ask(s.b, (*ipam.State).Objects) }
