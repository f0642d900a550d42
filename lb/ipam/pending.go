package ipam

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/lb"
)

// Request decides what a Service is to have, and enters it, so that nobody else is granted
// the same while it is claimed. A holder whose ports, key or backends have changed may make
// room for others beside it. Who gets less than it asks for is pending from this moment:
// others may release what it lacks before it is told. created is when the Service was.
func (s *State) Request(r Request, created, now time.Time) (Decision, Effects) {
	d, changed := s.grant(r, now)
	if changed {
		s.offerSharers(r.Service, now)
	}
	s.pendings.note(r, created, d)
	return d, s.out.take()
}

// Settle notes that a decision was carried out: the Service of that UID holds what it was
// granted.
func (s *State) Settle(r Request, created time.Time, d Decision) {
	s.services.learn(r.Service, func(x *serviceRecord) { x.last, x.uid = &d, r.UID })
	delete(s.pendings, r.Service)
	s.pendings.note(r, created, d)
}

// Revise notes that a Service that is pending asks for something else: what comes free before
// it is looked at is offered to it by that.
func (s *State) Revise(r Request) {
	if p := s.pendings[r.Service]; p != nil {
		s.pendings[r.Service] = &pending{request: r, created: p.created}
	}
}

// Withdraw notes that a Service asks for nothing any more. What it holds it holds on.
func (s *State) Withdraw(k lb.ServiceKey) { delete(s.pendings, k) }

// Forget forgets what a Service was told and waits for; it holds nothing any more.
func (s *State) Forget(k lb.ServiceKey) {
	delete(s.pendings, k)
	s.services.learn(k, func(x *serviceRecord) { x.last, x.uid = nil, "" })
}

// grant decides what a Service is to have and enters it. Who is refused keeps what it holds,
// and serves there what it says now. It reports whether others may join it that could not.
func (s *State) grant(r Request, now time.Time) (d Decision, changed bool) {
	d = allocate(s.ledger, r, s.toldOf(r), now)
	s.explainShown(r.Service, d.Denials)
	if d.Refused {
		return d, s.ledger.Says(r.Holder)
	}
	for _, v := range d.VIPs {
		changed = s.ledger.Hold(v.Addr, v.Pool, r.Holder) || changed
	}
	return d, changed && r.Sharing != ""
}

// Unreported returns what a Service holds that neither it nor anybody who reads its status was
// told of: one family was acquired and the other could not be, or
// an earlier Service of its name held it. If it is refused it must not keep what it never had.
func (s *State) Unreported(r Request) []netip.Addr {
	return minus(minus(s.Holds(r.Service), r.Shown...), addrsOf(s.toldOf(r))...)
}

func addrsOf(vips []Assignment) []netip.Addr {
	all := make([]netip.Addr, len(vips))
	for i, v := range vips {
		all[i] = v.Addr
	}
	return all
}

// retryAfterRevert is how long an address that could not be acquired is left to who failed:
// two that wait for it, and cannot have it while the API server does not answer, would
// else keep each other busy.
const retryAfterRevert = time.Second

// Revert undoes what was granted to a Service and could not be acquired. An object that was
// made all the same, its answer lost, is observed later.
func (s *State) Revert(k lb.ServiceKey, vips []Assignment) Effects {
	for _, v := range vips {
		if o := s.addresses.of(v.Addr).object; o == nil && v.New || o != nil && !o.HeldBy(k) {
			s.revert(v.Addr, k)
			s.out.retry(retryAfterRevert, s.where(func(o lb.ServiceKey, p *pending) bool { return o != k && p.mayTake(v.Addr) })...)
		}
	}
	return s.out.take()
}

// revert strikes out a holder that no object names. An address that is in quarantine again is
// written down anew: it may have been left out meanwhile.
func (s *State) revert(a netip.Addr, k lb.ServiceKey) {
	if s.ledger.Revert(a, k) {
		s.out.Quarantine = true
	}
	s.blockShown(a)
}

// OfferAll grants those that are pending what they may have by now.
func (s *State) OfferAll(now time.Time) Effects {
	s.offer(now, anyone, func() bool { return false })
	return s.out.take()
}

// offerFreed offers an address that has become free, until somebody has it. Those that were
// told who holds it are told anew.
func (s *State) offerFreed(a netip.Addr, now time.Time) {
	s.offer(now, func(_ lb.ServiceKey, p *pending) bool { return p.mayTake(a) }, func() bool {
		_, held := s.Holding(a)
		return held
	})
	s.out.retry(0, s.where(func(k lb.ServiceKey, _ *pending) bool { return s.wasDenied(k, a) })...)
}

// offerSharers offers what those may share by now that are pending, since k joined or left
// others at an address, or serves other ports there.
func (s *State) offerSharers(k lb.ServiceKey, now time.Time) {
	s.offer(now, func(o lb.ServiceKey, p *pending) bool {
		return p.request.Sharing != "" && o.Namespace == k.Namespace && o != k
	}, func() bool { return false })
}

// offer grants, until done, those that are pending what they may have by now; who waits
// longest comes first, and all of them before whoever asks next. What they are granted they
// acquire when they are reconciled. Those that may join them there are looked at once,
// however many were granted something.
func (s *State) offer(now time.Time, helps func(lb.ServiceKey, *pending) bool, done func() bool) {
	joinable := map[string]bool{} // namespaces
	for _, k := range s.where(helps) {
		if done() {
			break
		}
		if _, changed := s.grant(s.pendings[k].request, now); changed {
			joinable[k.Namespace] = true
		}
		s.out.retry(0, k)
	}
	if len(joinable) > 0 {
		s.out.retry(0, s.where(func(k lb.ServiceKey, p *pending) bool { return p.request.Sharing != "" && joinable[k.Namespace] })...)
	}
}
