package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// Claim says what is to be written next so that a Service, of that UID, holds an address that
// it was granted; [Nothing]: it does. Who writes it observes the answer and asks again.
func (s *State) Claim(a netip.Addr, k lb.ServiceKey, uid string) Write {
	x := s.known(a)
	switch {
	case x.foreign:
		return Write{Verb: Refused}
	case x.object == nil:
		return Write{Verb: Create, Object: Object{Addr: a}}
	}
	o := *x.object
	switch named := o.HeldBy(k); {
	case named && o.parentUIDWith(k, uid) == o.ParentUID:
		s.learn(a, func(x *addressRecord) { x.releasing = lb.ServiceKey{} }) // it has it again
		return Write{}
	case named:
		s.learn(a, func(x *addressRecord) { x.releasing = lb.ServiceKey{} })
		return Write{Verb: Update, Object: o, Holders: o.Holders, ParentUID: uid, Confirm: true}
	case x.releasing != (lb.ServiceKey{}):
		return Write{Verb: Delete, Object: o}
	case !s.mayJoin(a, k):
		return Write{Verb: Refused}
	}
	return Write{Verb: Update, Object: o, Holders: withHolder(o.Holders, k), ParentUID: o.parentUIDWith(k, uid)}
}

// mayJoin reports whether the ledger lets a Service that it has as a holder hold an address
// beside the others.
func (s *State) mayJoin(a netip.Addr, k lb.ServiceKey) bool {
	c, _ := s.ledger.Claim(a)
	i := slices.IndexFunc(c.Holders, func(h Holder) bool { return h.Service == k })
	return i >= 0 && s.ledger.MayJoin(a, c.Holders[i]) == ""
}

// Unclaim says what is to be written next so that the Service of that UID, or any of its name,
// holds an address no more; [Nothing]: it does not, and the ledger knows. first is the object
// that there was when the address was to be released: what was made since then is not the one
// that was to go. The object of an address without holders stays until it is written down that
// the address is in quarantine: whoever leads next knows it from one of the two.
func (s *State) Unclaim(a netip.Addr, k lb.ServiceKey, uid string, first Object, now time.Time) (Write, Effects) {
	x := s.known(a)
	if x.object == nil || !x.object.HeldBy(k) {
		s.release(a, k, now)
		return Write{}, s.effects()
	}
	o := *x.object
	switch {
	case o.IsOfAnother(k, uid):
		return Write{Verb: Another}, Effects{}
	case first.UID != "" && (o.UID != first.UID || o.IsOfAnother(k, first.ParentUID)):
		return Write{Verb: Late}, Effects{}
	}
	rest := minus(o.Holders, k)
	if len(rest) == 0 {
		rest = s.othersAt(a, k) // that are about to join it
	}
	if len(rest) > 0 {
		return Write{Verb: Update, Object: o, Holders: rest, ParentUID: o.parentUIDWith(k, ParentLeft)}, Effects{}
	}
	if s.release(a, k, now) {
		s.learn(a, func(x *addressRecord) { x.releasing = k })
	}
	return Write{}, s.effects()
}

// othersAt returns who else than k holds an address, sorted as it is written.
func (s *State) othersAt(a netip.Addr, k lb.ServiceKey) (others []lb.ServiceKey) {
	c, _ := s.ledger.Claim(a)
	for _, h := range c.Holders {
		if h.Service != k {
			others = withHolder(others, h.Service)
		}
	}
	return others
}

// release notes that a Service holds an address no more, and offers it. It reports whether
// nobody holds it.
func (s *State) release(a netip.Addr, k lb.ServiceKey, now time.Time) bool {
	held := s.IsHolder(a, k)
	if !s.ledger.Release(a, k, now) {
		if held {
			s.offerSharers(k, now) // who clashed with it may join the others
		}
		return false
	}
	if !s.blockShown(a) {
		s.offerFreed(a, now)
	}
	s.out.Quarantine = true
	return true
}

// Releasing returns the object of an address that was released and still has one.
func (s *State) Releasing(a netip.Addr) (Object, bool) {
	if x := s.known(a); x.object != nil && x.releasing != (lb.ServiceKey{}) {
		return *x.object, true
	}
	return Object{}, false
}

// Quarantine puts addresses into quarantine again of which it was written down, each until
// its time, but none for longer than [RestTime]: a clock may have been ahead.
func (s *State) Quarantine(all []Rested, now time.Time) {
	for _, r := range all {
		if !r.Until.After(now) {
			continue
		}
		if latest := now.Add(RestTime); r.Until.After(latest) {
			r.Until = latest
		}
		s.ledger.Rest(r)
	}
}

// Quarantined returns what is in quarantine, what is to be written down first at the
// beginning: what has no object any more; what its owner could take for its own after a
// restart, since it holds another address; what was released first. releasing are all
// addresses that were released and still have an object, sorted.
func (s *State) Quarantined(now time.Time) (all []Rested, releasing []netip.Addr) {
	for a, x := range s.addresses {
		if x.releasing != (lb.ServiceKey{}) {
			releasing = append(releasing, a)
		}
	}
	slices.SortFunc(releasing, netip.Addr.Compare)
	var order [3][]Rested
	for _, r := range s.ledger.Resting() {
		switch {
		case !r.Until.After(now):
		case s.known(r.Addr).releasing == lb.ServiceKey{}:
			order[0] = append(order[0], r)
		case len(s.ledger.Holds(r.Owner)) > 0:
			order[1] = append(order[1], r)
		default:
			order[2] = append(order[2], r)
		}
	}
	return slices.Concat(order[:]...), releasing
}
