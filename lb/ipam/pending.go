package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// pending is what a Service asks for that has less.
type pending struct {
	request Request
	created time.Time
	lacks   lb.Family // that alone is missing; none: anything may help
}

// mayTake reports whether an address may be what it lacks.
func (p pending) mayTake(a netip.Addr) bool {
	return p.lacks == lb.NoFamily || p.lacks == lb.FamilyOf(a)
}

// Request decides what a Service is to have, and enters it, so that nobody else is granted
// the same while it is claimed. A holder whose ports, key or backends have changed may make
// room for others beside it. Who gets less than it asks for is pending from this moment:
// others may release what it lacks before it is told. created is when the Service was.
func (s *State) Request(r Request, created, now time.Time) (Decision, Effects) {
	d, changed := s.grant(r, now)
	if changed {
		s.offerSharers(r.Service, now)
	}
	s.notePending(r, created, d)
	return d, s.effects()
}

// Settle notes that a decision was carried out: the Service of that UID holds what it was
// granted.
func (s *State) Settle(r Request, uid string, created time.Time, d Decision) {
	x := s.record(r.Service)
	x.last, x.uid = &d, uid
	delete(s.pending, r.Service)
	s.notePending(r, created, d)
}

// Withdraw notes that a Service asks for nothing any more. What it holds it holds on.
func (s *State) Withdraw(k lb.ServiceKey) { delete(s.pending, k) }

// Forget forgets what a Service was told and waits for; it holds nothing any more.
func (s *State) Forget(k lb.ServiceKey) {
	delete(s.pending, k)
	if x := s.services[k]; x != nil {
		x.last, x.uid = nil, ""
		s.forgetIfEmpty(k)
	}
}

// grant decides what a Service is to have and enters it. Who is refused keeps what it holds,
// and serves there what it says now. It reports whether others may join it that could not.
func (s *State) grant(r Request, now time.Time) (d Decision, changed bool) {
	d = Allocate(s.ledger, r, now)
	s.explainShown(r.Service, d.Denials)
	if d.Refused {
		return d, s.ledger.Says(r.Holder)
	}
	for _, v := range d.VIPs {
		changed = s.ledger.Hold(v.Addr, v.Pool, r.Holder) || changed
	}
	return d, changed && r.Sharing != ""
}

// notePending notes that a Service is pending if a decision gives it less than it asks for.
func (s *State) notePending(r Request, created time.Time, d Decision) {
	if !d.Refused && len(d.Denials) == 0 {
		return
	}
	p := &pending{request: r, created: created}
	if !d.Refused && len(d.VIPs) == 1 {
		p.lacks = lb.FamilyOf(d.VIPs[0].Addr).Other()
	}
	s.pending[r.Service] = p
}

// Unreported returns what the Service of that UID holds that it was not told of, nor anybody who reads its
// status, which shows what is in shown: one family was acquired and the other could not be, or
// an earlier Service of its name held it. If it is refused it must not keep what it never had.
func (s *State) Unreported(k lb.ServiceKey, uid string, shown []netip.Addr) []netip.Addr {
	all := minus(s.ledger.Holds(k), shown...)
	if x := s.services[k]; x != nil && x.uid == uid {
		all = minus(all, addrsOf(s.lastOf(k).VIPs)...)
	}
	return all
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
		if o := s.known(v.Addr).object; o == nil && v.New || o != nil && !o.HeldBy(k) {
			s.revert(v.Addr, k)
			s.retry(retryAfterRevert, func(o lb.ServiceKey, p *pending) bool { return o != k && p.mayTake(v.Addr) })
		}
	}
	return s.effects()
}

// revert strikes out a holder that no object names. An address that is in quarantine again is
// written down anew: it may have been left out meanwhile.
func (s *State) revert(a netip.Addr, k lb.ServiceKey) {
	if s.ledger.Forget(a, k) {
		s.out.Quarantine = true
	}
	s.blockShown(a)
}

// Pending returns the Services that are pending, who waits longest first.
func (s *State) Pending() []lb.ServiceKey {
	return s.pendingWhere(func(lb.ServiceKey, *pending) bool { return true })
}

// OfferAll grants those that are pending what they may have by now.
func (s *State) OfferAll(now time.Time) Effects {
	s.offer(now, func(lb.ServiceKey, *pending) bool { return true }, func() bool { return false })
	return s.effects()
}

// offerFreed offers an address that has become free, until somebody has it. Those that were
// told who holds it are told anew.
func (s *State) offerFreed(a netip.Addr, now time.Time) {
	s.offer(now, func(_ lb.ServiceKey, p *pending) bool { return p.mayTake(a) }, func() bool {
		_, held := s.ledger.Claim(a)
		return held
	})
	s.retry(0, func(k lb.ServiceKey, _ *pending) bool { return s.wasDenied(k, a) })
}

// wasDenied reports whether a Service was told why it does not get a.
func (s *State) wasDenied(k lb.ServiceKey, a netip.Addr) bool {
	return slices.ContainsFunc(s.lastOf(k).Denials, func(d Denial) bool { return d.Address == a })
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
	for _, k := range s.pendingWhere(helps) {
		if done() {
			break
		}
		if _, changed := s.grant(s.pending[k].request, now); changed {
			joinable[k.Namespace] = true
		}
		s.reconcile(k)
	}
	if len(joinable) > 0 {
		s.retry(0, func(k lb.ServiceKey, p *pending) bool { return p.request.Sharing != "" && joinable[k.Namespace] })
	}
}

// retry has those looked at, after a while, that are pending and whom something may help.
func (s *State) retry(after time.Duration, helps func(lb.ServiceKey, *pending) bool) {
	for _, k := range s.pendingWhere(helps) {
		s.out.Reconcile = append(s.out.Reconcile, Retry{k, after})
	}
}

// pendingWhere returns those that are pending and whom something may help; who waits longest
// comes first.
func (s *State) pendingWhere(helps func(lb.ServiceKey, *pending) bool) []lb.ServiceKey {
	var all []lb.ServiceKey
	for k, p := range s.pending {
		if helps(k, p) {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(x, y lb.ServiceKey) int {
		return cmp.Or(s.pending[x].created.Compare(s.pending[y].created), x.Compare(y))
	})
	return all
}
