package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// pendings holds the request of each Service that has less than it asks for.
type pendings map[lb.ServiceKey]*pending

type pending struct {
	request Request
	has     netip.Addr // of the only family that it has, so that the other is missing; zero: any address may help
}

// mayTake reports whether an address may be of the family that it lacks.
func (p pending) mayTake(a netip.Addr) bool {
	return !p.has.IsValid() || p.has.Is4() != a.Is4()
}

// note notes that a Service is pending if a decision gives it less than it asks for.
func (all pendings) note(request Request, decision Decision) {
	if !decision.Refused && len(decision.Denials) == 0 {
		return
	}
	p := &pending{request: request}
	if !decision.Refused && len(decision.VIPs) > 0 {
		p.has = decision.VIPs[0].Addr
	}
	all[request.Service] = p
}

// where returns the pending Services that helps reports; the one that is pending longest comes first.
func (all pendings) where(helps func(lb.ServiceKey, *pending) bool) []lb.ServiceKey {
	var some []lb.ServiceKey
	for k, p := range all {
		if helps(k, p) {
			some = append(some, k)
		}
	}
	slices.SortFunc(some, func(x, y lb.ServiceKey) int {
		return cmp.Or(all[x].request.Created.Compare(all[y].request.Created), x.Compare(y))
	})
	return some
}

// Pending returns the Services that are pending, the one that is pending longest first.
func (all pendings) Pending() []lb.ServiceKey { return all.where(anyone) }

func anyone(lb.ServiceKey, *pending) bool { return true }

// Request decides on the addresses of a Service, and adds them to the ledger, so that no other is granted
// the same while they are claimed. A holder whose ports, key or backends have changed may make
// room for others beside it. A Service that gets less than it asks for is pending from this moment:
// others may release an address that it lacks before it is told.
//
// A refused Service must not keep an address that it never had: it has to release those that it holds and that
// neither its decision nor its status showed. One family was acquired and the
// other could not be, or an earlier Service of its name held it.
func (s *State) Request(r Request, now time.Time) (Decision, Effects) {
	d, changed := s.grant(r, now)
	if changed {
		s.offerSharers(r.Service, now)
	}
	s.pendings.note(r, d)
	return d, s.out.take()
}

// Settle notes that a decision was carried out: the Service of that UID holds what it was
// granted. A Service that asks for an address that is another's for now is reconciled when its quarantine
// ends: there is no other event then.
func (s *State) Settle(request Request, d Decision, now time.Time) Effects {
	s.services.learn(request.Service, func(x *serviceRecord) { x.last, x.uid = &d, request.UID })
	delete(s.pendings, request.Service)
	s.pendings.note(request, d)
	for _, x := range d.Denials {
		if !x.Until.IsZero() {
			s.out.retry(x.Until.Sub(now), request.Service)
		}
	}
	return s.out.take()
}

// Revise notes that a pending Service asks for something else: an address that becomes free before
// it is reconciled is offered to it by the new request.
func (all pendings) Revise(r Request) {
	if all[r.Service] != nil {
		all[r.Service] = &pending{request: r}
	}
}

// Withdraw notes that a Service asks for nothing any more. It keeps the addresses that it holds.
func (all pendings) Withdraw(k lb.ServiceKey) { delete(all, k) }

// Forget drops the last decision and the pending request of a Service, which holds nothing any more.
func (s *State) Forget(k lb.ServiceKey) {
	delete(s.pendings, k)
	s.services.learn(k, func(x *serviceRecord) { x.last, x.uid = nil, "" })
}

// grant decides on the addresses of a Service and adds them to the ledger. A refused Service keeps those that it
// holds, and serves there by its latest spec. It reports whether others may join it that could not.
func (s *State) grant(request Request, now time.Time) (decision Decision, changed bool) {
	last, _ := s.Told(request.Service, request.UID)
	told := last.Addrs()
	decision = allocate(s.ledger, request, told, s.leftTo(request), now)
	s.explainShown(request.Service, decision.Denials)
	if decision.Refused {
		decision.Unreported = minus(minus(s.Holds(request.Service), request.Shown...), told...)
		return decision, s.ledger.Says(request.Holder)
	}
	for _, v := range decision.VIPs {
		changed = s.ledger.Hold(v.Addr, v.Pool, request.Holder) || changed
	}
	return decision, changed && request.Sharing != ""
}

// leftTo returns the addresses that the Service holds by its name alone: objects name an earlier
// one, which is gone, and its status does not show them. Of holders that joined others later
// no object has the UID of the Service.
func (s *State) leftTo(r Request) (left []netip.Addr) {
	for _, a := range s.Holds(r.Service) {
		if o := s.addresses.of(a).object; o != nil && o.IsOfAnother(r.Service, r.UID) && !slices.Contains(r.Shown, a) {
			left = append(left, a)
		}
	}
	return left
}

// retryAfterRevert is the time for which an address that could not be acquired is left to the Service that failed:
// two that wait for it, and cannot have it while the API server does not answer, would
// else keep each other busy.
const retryAfterRevert = time.Second

// Revert undoes the grant of addresses to a Service that could not be acquired. An object that was
// made all the same, its answer lost, is observed later. An address that the Service held before, and whose
// object is gone or names others that share it, stays its: it is to be claimed anew.
func (s *State) Revert(k lb.ServiceKey, vips []Assignment) Effects {
	for _, v := range vips {
		x := s.addresses.of(v.Addr)
		named := x.object != nil && x.object.HeldBy(k)
		offered := x.releasing != (lb.ServiceKey{}) // another one's a moment ago
		if !named && (v.New || offered || x.object != nil && !s.ledger.mayStayBeside(v.Addr, k)) {
			s.revert(v.Addr, k)
			s.out.retry(retryAfterRevert, s.where(func(o lb.ServiceKey, p *pending) bool { return o != k && p.mayTake(v.Addr) })...)
		}
	}
	return s.out.take()
}

// revert removes a holder that no object names. The quarantine of an address that is in it again is
// stored anew: it may have been left out meanwhile.
func (s *State) revert(a netip.Addr, k lb.ServiceKey) {
	if s.ledger.Revert(a, k) {
		s.out.Quarantine = true
	}
	s.blockShown(a)
}

// OfferAll grants pending Services the addresses that they may have by now.
func (s *State) OfferAll(now time.Time) Effects {
	s.offer(now, anyone, func() bool { return false })
	return s.out.take()
}

// offerFreed offers an address that has become free to pending Services, until one has it. Those that were
// told its holder are told anew.
func (s *State) offerFreed(a netip.Addr, now time.Time) {
	s.offer(now, func(_ lb.ServiceKey, p *pending) bool { return p.mayTake(a) }, func() bool {
		_, held := s.Holding(a)
		return held
	})
	s.out.retry(0, s.where(func(k lb.ServiceKey, _ *pending) bool { return s.wasDenied(k, a) })...)
}

// offerSharers offers pending Services the addresses that they may share by now, since k joined or left
// others at an address, or serves other ports there.
func (s *State) offerSharers(k lb.ServiceKey, now time.Time) {
	s.offer(now, func(o lb.ServiceKey, p *pending) bool {
		return p.request.Sharing != "" && o.Namespace == k.Namespace && o != k
	}, func() bool { return false })
}

// offer grants, until done, pending Services the addresses that they may have by now; the one that is pending
// longest comes first, and all of them before the next request. They acquire the granted addresses
// when they are reconciled. Services that may join them there are reconciled once,
// however many were granted something.
func (s *State) offer(now time.Time, helps func(lb.ServiceKey, *pending) bool, done func() bool) {
	joinable := map[string]bool{} // namespaces
	for _, key := range s.where(helps) {
		if done() {
			break
		}
		if _, changed := s.grant(s.pendings[key].request, now); changed {
			joinable[key.Namespace] = true
		}
		s.out.retry(0, key)
	}
	if len(joinable) > 0 {
		s.out.retry(0, s.where(func(k lb.ServiceKey, p *pending) bool { return p.request.Sharing != "" && joinable[k.Namespace] })...)
	}
}
