package vip

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// standing is what a Service was last told.
type standing struct {
	uid      types.UID // of the Service that was told
	decision ipam.Decision
	seen     bool      // its status has had these VIPs since
	told     bool      // its condition has said so since
	righted  time.Time // when its status was last set right
	rights   int       // how often it was, since it was left alone for long
}

var seed = maphash.MakeSeed()

// occupy has one goroutine at a time settle a Service.
func (b *Controller) occupy(k lb.ServiceKey) (done func()) {
	m := &b.busy[maphash.Comparable(seed, k)%uint64(len(b.busy))]
	m.Lock()
	return m.Unlock
}

// alone has one goroutine at a time write the object of an address: Services that share
// it come and go together, and would else take the object from under each other.
func (b *Controller) alone(a netip.Addr) (done func()) {
	m := &b.writing[maphash.Comparable(seed, a)%uint64(len(b.writing))]
	m.Lock()
	return m.Unlock
}

// settle decides which VIPs a Service is to have, takes them, and gives back those
// that it is no longer to have and its status does not show: while it does, the Service
// holds them too, and is settled again once its status is written. A decision that is
// refused is no error.
func (b *Controller) settle(ctx context.Context, svc *v1.Service) (ipam.Decision, error) {
	k := keyOf(svc)
	defer b.occupy(k)()
	for range claimAttempts {
		d := b.decide(svc)
		if untold := b.untoldOf(svc); d.Refused && len(untold) > 0 {
			shown, err := b.releaseUnreported(ctx, svc, untold)
			if err == nil && len(shown) > 0 {
				err = staleService(k)
			}
			if err != nil {
				return d, err
			}
			continue
		}
		acquired, err := b.acquireAll(ctx, svc, d)
		if err != nil {
			return d, err
		}
		if !acquired {
			continue
		}
		b.note(svc, d)
		_, err = b.releaseUnreported(ctx, svc, d.Release)
		return d, err
	}
	return ipam.Decision{}, errContended
}

// untoldOf returns what a Service acquired and still holds, and neither it nor anybody who
// reads its status knows of: one family was acquired, the other could not be. If it is then
// refused it must not keep what it never had.
func (b *Controller) untoldOf(svc *v1.Service) []netip.Addr {
	k := keyOf(svc)
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.untold[k]), func(a netip.Addr) bool {
		return !b.holds(a, k) || slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i v1.LoadBalancerIngress) bool { return i.IP == a.String() })
	})
}

// decide asks the ledger, and enters what was granted. A holder whose ports, key or
// backends have changed may make room for others beside it. Who gets less than it asks
// for waits from this moment: others may give back what it lacks before it is told.
func (b *Controller) decide(svc *v1.Service) ipam.Decision {
	r := requestOf(svc)
	b.mu.Lock()
	defer b.mu.Unlock()
	d, changed := b.grant(r)
	if changed {
		b.grantSharers(r.Service)
	}
	b.noteWaiting(svc, d)
	return d
}

// grant decides what a Service is to have and enters it, so that nobody else is granted
// the same while it is being taken. Who is refused keeps what it holds, and serves there
// what it says now. It reports whether others may join it that could not. b.mu is held.
func (b *Controller) grant(r ipam.Request) (d ipam.Decision, changed bool) {
	d = ipam.Allocate(b.ledger, r, b.now())
	b.explainStaleLocked(r.Service, d.Denials)
	if d.Refused {
		return d, b.ledger.Says(r.Holder)
	}
	for _, v := range d.VIPs {
		changed = b.ledger.Hold(v.Addr, v.Pool, r.Holder) || changed
	}
	return d, changed && r.Sharing != ""
}

// acquireAll acquires the VIPs of a decision. It reports false when somebody else holds
// one of them; the ledger then knows, and has forgotten what was not acquired.
func (b *Controller) acquireAll(ctx context.Context, svc *v1.Service, d ipam.Decision) (bool, error) {
	for i, v := range d.VIPs {
		ok, err := b.acquire(ctx, v.Addr, v.Pool, keyOf(svc), svc.UID)
		if err != nil || !ok {
			b.rollBack(keyOf(svc), d.VIPs[i:])
			b.noteUntold(keyOf(svc), d.VIPs[:i+1])
			return false, err
		}
	}
	return true, nil
}

// noteUntold notes what was acquired before something else could not be, and what may have
// been: the answer can be lost. It is noted whether the ledger had it before or not, since
// who waits is granted addresses before acquiring them.
func (b *Controller) noteUntold(k lb.ServiceKey, vips []ipam.Assignment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var told []netip.Addr
	if s := b.standings[k]; s != nil {
		told = addrs(s.decision.VIPs)
	}
	for _, v := range vips {
		if !slices.Contains(told, v.Addr) && !slices.Contains(b.untold[k], v.Addr) {
			b.untold[k] = append(b.untold[k], v.Addr)
		}
	}
}

// relinquishAll relinquishes several addresses. What another Service of the name holds is
// not this one's to relinquish.
func (b *Controller) relinquishAll(ctx context.Context, k lb.ServiceKey, uid types.UID, all []netip.Addr) error {
	for _, a := range all {
		done, err := b.relinquish(ctx, a, k, uid)
		if err == nil && !done {
			err = staleService(k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relinquish is relinquishAs. It also relinquishes a claim that an earlier Service of this
// name made, once that Service is confirmed gone.
func (b *Controller) relinquish(ctx context.Context, a netip.Addr, k lb.ServiceKey, uid types.UID) (bool, error) {
	done, err := b.relinquishAs(ctx, a, k, uid)
	if done || err != nil {
		return done, err
	}
	switch err := b.confirm(ctx, k, uid); {
	case apierrors.IsConflict(err):
		return false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, err
	}
	return b.relinquishAs(ctx, a, k, "")
}

// retryAfterRollBack is how long an address that could not be acquired is left to who failed:
// two that wait for it, and cannot have it while the API server does not answer, would
// else keep each other busy.
const retryAfterRollBack = time.Second

// rollBack strikes out what was entered and could not be acquired. An object that was
// made all the same, its answer lost, comes back by the watch.
func (b *Controller) rollBack(k lb.ServiceKey, vips []ipam.Assignment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range vips {
		if c, known := b.claims[v.Addr]; !known && v.New || known && !c.heldBy(k) {
			b.forget(v.Addr, k)
			b.queueWaiters(retryAfterRollBack, func(w waiter) bool { return w.key != k && w.mayTake(v.Addr) })
		}
	}
}

// standing returns what a Service was last told.
func (b *Controller) standing(k lb.ServiceKey) (standing, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.standings[k]
	if s == nil {
		return standing{}, false
	}
	return *s, true
}

// note remembers what a Service was told.
func (b *Controller) note(svc *v1.Service, d ipam.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.standings[keyOf(svc)]
	if s == nil || s.uid != svc.UID {
		s = &standing{uid: svc.UID}
		b.standings[keyOf(svc)] = s
	}
	if !slices.EqualFunc(s.decision.VIPs, d.VIPs, func(x, y ipam.Assignment) bool { return x.Addr == y.Addr }) {
		s.seen = false
	}
	s.told = s.told && sameDecision(s.decision, d)
	s.decision = d
	delete(b.untold, keyOf(svc))
	delete(b.waiting, keyOf(svc))
	b.noteWaiting(svc, d)
	s.seen = s.seen || !d.Refused && sameIngress(svc, ingressOf(addrs(d.VIPs)))
}

// waiter is a Service that has less than it asks for.
type waiter struct {
	key     lb.ServiceKey
	created time.Time
	lacks   lb.Family // that alone is missing; none: anything may help
	shares  bool      // it may join others of its namespace
}

// mayTake reports whether an address may be what it waits for.
func (w waiter) mayTake(a netip.Addr) bool {
	return w.lacks == lb.NoFamily || w.lacks == lb.FamilyOf(a)
}

// noteWaiting notes that a Service waits if a decision gives it less than it asks for.
// b.mu is held.
func (b *Controller) noteWaiting(svc *v1.Service, d ipam.Decision) {
	if d.Refused || len(d.Denials) > 0 {
		b.waiting[keyOf(svc)] = waiterOf(svc, d)
	}
}

// waiterOf returns what a Service waits for after a decision.
func waiterOf(svc *v1.Service, d ipam.Decision) waiter {
	_, key := ipam.AskOf(svc.Annotations, "")
	w := waiter{key: keyOf(svc), created: svc.CreationTimestamp.Time, shares: key != ""}
	if !d.Refused && len(d.VIPs) == 1 {
		w.lacks = lb.IPv4 + lb.IPv6 - lb.FamilyOf(d.VIPs[0].Addr)
	}
	return w
}

// grantAllWaiting is grantWaiting for all Services that wait. b.mu is held.
func (b *Controller) grantAllWaiting() { b.grantWaiting(anyWaiter, func() bool { return false }) }

func anyWaiter(waiter) bool { return true }

// grantFreed is grantWaiting when an address has become free, until somebody has it. Those
// that were told who holds it are told anew. b.mu is held.
func (b *Controller) grantFreed(a netip.Addr) {
	b.grantWaiting(func(w waiter) bool { return w.mayTake(a) }, func() bool {
		_, held := b.ledger.Claim(a)
		return held
	})
	b.queueWaiters(0, func(w waiter) bool { return b.wasDenied(w.key, a) })
}

// wasDenied reports whether a Service was told why it does not get a. b.mu is held.
func (b *Controller) wasDenied(k lb.ServiceKey, a netip.Addr) bool {
	s := b.standings[k]
	return s != nil && slices.ContainsFunc(s.decision.Denials, func(d ipam.Denial) bool { return d.Address == a })
}

// grantSharers is grantWaiting when k joined or left others at an address, or serves other
// ports there. b.mu is held.
func (b *Controller) grantSharers(k lb.ServiceKey) {
	b.grantWaiting(mayShareWith(k), func() bool { return false })
}

func mayShareWith(k lb.ServiceKey) func(waiter) bool {
	return func(w waiter) bool { return w.shares && w.key.Namespace == k.Namespace && w.key != k }
}

// grantWaiting grants, until done, those that wait what they may have by now; who waits
// longest comes first, and all of them before whoever asks next. What they are granted they
// acquire when they are looked at. Those that may join them there are looked at once, however
// many were granted something. b.mu is held.
func (b *Controller) grantWaiting(helps func(waiter) bool, done func() bool) {
	joinable := map[string]bool{} // namespaces
	for _, w := range b.waiters(helps) {
		if done() {
			break
		}
		if svc, err := b.services.Services(w.key.Namespace).Get(w.key.Name); err == nil && b.isOurs(svc) {
			if _, changed := b.grant(requestOf(svc)); changed {
				joinable[w.key.Namespace] = true
			}
		}
		b.queue.Add(w.key.String())
	}
	if len(joinable) > 0 {
		b.queueWaiters(0, func(w waiter) bool { return w.shares && joinable[w.key.Namespace] })
	}
}

// queueWaiters has those looked at, after a while, that wait and whom something may help.
// b.mu is held.
func (b *Controller) queueWaiters(pause time.Duration, helps func(waiter) bool) {
	for _, w := range b.waiters(helps) {
		b.queue.AddAfter(w.key.String(), pause)
	}
}

// waiters returns those that wait and whom something may help; who waits longest comes
// first. b.mu is held.
func (b *Controller) waiters(helps func(waiter) bool) []waiter {
	var all []waiter
	for _, w := range b.waiting {
		if helps(w) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(x, y waiter) int {
		return cmp.Or(x.created.Compare(y.created), x.key.Compare(y.key))
	})
	return all
}

// relinquishHeld relinquishes all that the Service of that UID, or any of its name, holds,
// and forgets the Service, unless there is another of its name by now. Its status is
// cleared first: should this process end in between, its successor relinquishes the rest.
func (b *Controller) relinquishHeld(ctx context.Context, k lb.ServiceKey, uid types.UID) error {
	defer b.occupy(k)()
	if err := b.clearReported(ctx, k, uid); err != nil {
		return err
	}
	b.mu.Lock()
	held := slices.Clone(b.ledger.Holds(k))
	b.mu.Unlock()
	for _, a := range held {
		if done, err := b.relinquish(ctx, a, k, uid); err != nil || !done {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.standings, k)
	delete(b.untold, k)
	delete(b.waiting, k)
	return nil
}
