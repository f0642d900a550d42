package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// ToHold says what is to be written next so that a Service, of that UID, holds an address that
// it was granted; [Nothing]: it does. Who writes it observes the answer and asks again.
//
// An object that names the Service may be about to go: another leader released it, and removes it
// as it knows it. So where no status shows the address yet, the object is renewed first; what
// that one removes is then another version.
func (s *State) ToHold(a netip.Addr, k lb.ServiceKey, uid string, shown bool) Write {
	x := s.addresses.of(a)
	switch {
	case x.foreign:
		return Write{Verb: Refused}
	case x.object == nil:
		return Write{Verb: Create, Object: Object{Addr: a}}
	}
	o := *x.object
	switch named := o.HeldBy(k); {
	case named && o.parentUIDWith(k, uid) == o.ParentUID:
		s.addresses.learn(a, func(x *addressRecord) { x.releasing = lb.ServiceKey{} }) // it has it again
		if !shown {
			return Write{Verb: Update, Object: o, Holders: o.Holders, ParentUID: o.ParentUID, Renew: true}
		}
		return Write{}
	case named:
		s.addresses.learn(a, func(x *addressRecord) { x.releasing = lb.ServiceKey{} })
		return Write{Verb: Update, Object: o, Holders: o.Holders, ParentUID: uid, Confirm: true}
	case x.releasing != (lb.ServiceKey{}): // in one write, or nothing would say for a moment that it was released
		left := Object{Parent: o.Parent, ParentUID: ParentLeft}
		return Write{Verb: Update, Object: o, Holders: []lb.ServiceKey{k}, ParentUID: left.parentUIDWith(k, uid), Released: true}
	case !s.ledger.mayStayBeside(a, k):
		return Write{Verb: Refused}
	}
	return Write{Verb: Update, Object: o, Holders: withHolder(o.Holders, k), ParentUID: o.parentUIDWith(k, uid)}
}

// mayStayBeside reports whether a holder of an address may be one beside the others.
func (l *Ledger) mayStayBeside(a netip.Addr, k lb.ServiceKey) bool {
	h, holds := l.holdings[a].holder(k)
	return holds && l.MayJoin(a, h) == ""
}

// ToRelease says what is to be written next so that the Service of that UID, or any of its name,
// holds an address no more; [Nothing]: it does not, and the ledger knows. first is the object
// that there was when the address was to be released: what was made since then is not the one
// that was to go. The object of an address without holders stays until it is written down that
// the address is in quarantine: whoever leads next knows it from one of the two.
func (s *State) ToRelease(a netip.Addr, k lb.ServiceKey, uid string, first Object, now time.Time) (Write, Effects) {
	x := s.addresses.of(a)
	if x.object == nil || !x.object.HeldBy(k) {
		s.release(a, k, now)
		return Write{}, s.out.take()
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
		rest = s.ledger.othersAt(a, k) // that are about to join it
	}
	if len(rest) > 0 {
		return Write{Verb: Update, Object: o, Holders: rest, ParentUID: o.parentUIDWith(k, ParentLeft)}, Effects{}
	}
	if s.release(a, k, now) {
		s.addresses.learn(a, func(x *addressRecord) { x.releasing = k })
	}
	return Write{}, s.out.take()
}

// othersAt returns who else than k holds an address, sorted as it is written.
func (l *Ledger) othersAt(a netip.Addr, k lb.ServiceKey) (others []lb.ServiceKey) {
	c, _ := l.Holding(a)
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

// Quarantine puts free addresses into quarantine of which it was written down, each until its
// time. One that is in quarantine already was given to its last owner by whoever's ends later: another
// leader may have given it, and had it back, while this one stood still.
func (s *State) Quarantine(all []Quarantined, now time.Time) {
	for _, r := range all {
		if known := s.ledger.quarantineOf(r.Addr); r.Until.After(now) && r.Until.After(known.Until) {
			s.ledger.Quarantine(r)
		}
	}
}

// Quarantined returns what is in quarantine, what is to be written down first at the
// beginning: what has no object any more; what its owner could take for its own after a
// restart, since it holds another address; what was released first. releasing are the objects,
// sorted, of all addresses that were released: of one that was granted again the object stays,
// for nothing else says that it was released.
func (s *State) Quarantined(now time.Time) (all []Quarantined, releasing []Object) {
	for a, x := range s.addresses {
		if _, granted := s.ledger.holdings[a]; x.releasing != (lb.ServiceKey{}) && !granted {
			releasing = append(releasing, *x.object)
		}
	}
	slices.SortFunc(releasing, func(x, y Object) int { return x.Addr.Compare(y.Addr) })
	var order [3][]Quarantined
	for _, r := range s.ledger.Quarantined() {
		switch {
		case !r.Until.After(now):
		case s.addresses.of(r.Addr).releasing == lb.ServiceKey{}:
			order[0] = append(order[0], r)
		case len(s.Holds(r.Owner)) > 0:
			order[1] = append(order[1], r)
		default:
			order[2] = append(order[2], r)
		}
	}
	return slices.Concat(order[:]...), releasing
}
