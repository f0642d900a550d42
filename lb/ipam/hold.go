package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// ToHold returns the next write by which a Service, of that UID, comes to hold an address that
// it was granted; [Nothing]: it does. The caller writes it, observes the answer and calls again.
//
// An object that names the Service may be about to go: another leader released it, and deletes it
// as it knows it. So where no status shows the address yet, the object is renewed first; the
// version that the other leader deletes is then another one.
func (s *State) ToHold(addr netip.Addr, key lb.ServiceKey, uid string, shown bool) Write {
	record := s.addresses.of(addr)
	switch {
	case record.foreign:
		return Write{Verb: Refused}
	case record.object == nil:
		return Write{Verb: Create, Object: Object{Addr: addr}}
	}
	object := *record.object
	switch named := object.HeldBy(key); {
	case named && object.parentUIDWith(key, uid) == object.ParentUID:
		s.addresses.learn(addr, func(x *addressRecord) { x.releasing = lb.ServiceKey{} }) // it has it again
		if !shown {
			return Write{Verb: Update, Object: object, Holders: object.Holders, ParentUID: object.ParentUID, Renew: true}
		}
		return Write{}
	case named:
		s.addresses.learn(addr, func(x *addressRecord) { x.releasing = lb.ServiceKey{} })
		return Write{Verb: Update, Object: object, Holders: object.Holders, ParentUID: uid, Confirm: true}
	case record.releasing != (lb.ServiceKey{}): // in one write, or nothing would show for a moment that it was released
		left := Object{Parent: object.Parent, ParentUID: ParentLeft}
		return Write{Verb: Update, Object: object, Holders: []lb.ServiceKey{key}, ParentUID: left.parentUIDWith(key, uid), Released: true}
	case !s.ledger.mayStayBeside(addr, key):
		return Write{Verb: Refused}
	}
	return Write{Verb: Update, Object: object, Holders: withHolder(object.Holders, key), ParentUID: object.parentUIDWith(key, uid)}
}

// mayStayBeside reports whether a holder of an address may be one beside the others.
func (l *Ledger) mayStayBeside(a netip.Addr, k lb.ServiceKey) bool {
	h, holds := l.holdings[a].holder(k)
	return holds && l.MayJoin(a, h) == ""
}

// ToRelease returns the next write by which the Service of that UID, or any of its name,
// releases an address; [Nothing]: it does not hold it, and the ledger knows. first is the object
// that there was when the address was to be released: an object that was made since then is not the
// one that was to go. The object of an address without holders stays until the quarantine of
// the address is stored: the next leader knows it from one of the two.
func (s *State) ToRelease(addr netip.Addr, key lb.ServiceKey, uid string, first Object, now time.Time) (Write, Effects) {
	x := s.addresses.of(addr)
	if x.object == nil || !x.object.HeldBy(key) {
		s.release(addr, key, now)
		return Write{}, s.out.take()
	}
	object := *x.object
	switch {
	case object.IsOfAnother(key, uid):
		return Write{Verb: Another}, Effects{}
	case first.UID != "" && (object.UID != first.UID || object.IsOfAnother(key, first.ParentUID)):
		return Write{Verb: Late}, Effects{}
	}
	rest := minus(object.Holders, key)
	if len(rest) == 0 {
		rest = s.ledger.othersAt(addr, key) // that are about to join it
	}
	if len(rest) > 0 {
		return Write{Verb: Update, Object: object, Holders: rest, ParentUID: object.parentUIDWith(key, ParentLeft)}, Effects{}
	}
	if s.release(addr, key, now) {
		s.addresses.learn(addr, func(x *addressRecord) { x.releasing = key })
	}
	return Write{}, s.out.take()
}

// othersAt returns the holders of an address other than k, sorted as they are written.
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
// it has no holder.
func (s *State) release(addr netip.Addr, k lb.ServiceKey, now time.Time) bool {
	held := s.IsHolder(addr, k)
	if !s.ledger.Release(addr, k, now) {
		if held {
			s.offerSharers(k, now) // a Service that clashed with it may join the others
		}
		return false
	}
	if !s.blockShown(addr) {
		s.offerFreed(addr, now)
	}
	s.out.Quarantine = true
	return true
}

// Quarantine puts free addresses into the quarantine that was stored of them, each until its
// time. Of two quarantines of an address the one that ends later counts, with its owner: another
// leader may have given the address, and had it back, while this one stood still.
func (s *State) Quarantine(all []Quarantined, now time.Time) {
	for _, r := range all {
		if known := s.ledger.quarantineOf(r.Addr); r.Until.After(now) && r.Until.After(known.Until) {
			s.ledger.Quarantine(r)
		}
	}
}

// Quarantined returns the addresses in quarantine, in the order in which they are to be stored:
// first those that have no object any more; then those that their last holder could take for its own
// after a restart, since it holds another address; of each, those that were released first. releasing
// are the objects, sorted, of all addresses that were released: of one that was granted again the
// object stays, for nothing else shows that it was released.
func (s *State) Quarantined(now time.Time) (all []Quarantined, releasing []Object) {
	for a, x := range s.addresses {
		if _, granted := s.ledger.holdings[a]; x.releasing != (lb.ServiceKey{}) && !granted {
			releasing = append(releasing, *x.object)
		}
	}
	slices.SortFunc(releasing, func(x, y Object) int { return x.Addr.Compare(y.Addr) })
	var order [3][]Quarantined
	for _, quarantined := range s.ledger.Quarantined() {
		switch {
		case !quarantined.Until.After(now):
		case s.addresses.of(quarantined.Addr).releasing == lb.ServiceKey{}:
			order[0] = append(order[0], quarantined)
		case len(s.Holds(quarantined.Owner)) > 0:
			order[1] = append(order[1], quarantined)
		default:
			order[2] = append(order[2], quarantined)
		}
	}
	return slices.Concat(order[:]...), releasing
}
