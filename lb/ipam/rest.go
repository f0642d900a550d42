package ipam

import (
	"net/netip"
	"plinth.dev/plinth/lb"
	"slices"
	"time"
)

// RestTime is how long a released address rests: within it only its former
// owner gets it, unless nothing else is free. Caches and clients of the former
// Service then do not meet a stranger.
const RestTime = 10 * time.Minute

// Rested is an address that was released and is not to be given to a Service
// other than its former owner before Until, unless nothing else is free.
type Rested struct {
	Addr  netip.Addr
	Owner lb.ServiceKey
	Until time.Time
}

// compareRested sorts by the end of the rest, then by address.
func compareRested(a, b Rested) int {
	if c := a.Until.Compare(b.Until); c != 0 {
		return c
	}
	return a.Addr.Compare(b.Addr)
}

// Resting returns all addresses that rest, and those that are blocked and rest on once they
// no longer are; whose rest ends first comes first.
func (l *Ledger) Resting() []Rested {
	all := l.blockedRests()
	for _, r := range l.queue {
		if l.rests(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, compareRested)
	return all
}

func (l *Ledger) blockedRests() (all []Rested) {
	for _, c := range l.claims {
		if c.foreign() && c.rest != nil {
			all = append(all, *c.rest)
		}
	}
	return all
}

// Rest has a free address rest, and one that is blocked once it no longer is.
func (l *Ledger) Rest(r Rested) {
	if c, held := l.claims[r.Addr]; held {
		if c.foreign() {
			c.rest = new(r)
			l.claims[r.Addr] = c
		}
		return
	}
	l.endRest(r.Addr)
	l.resting[r.Addr] = r
	l.former[r.Owner] = insertRested(l.former[r.Owner], r)
	l.queue = insertRested(l.queue, r)
	l.restInPool(r)
}

// restInPool has an address rest in its pool, if it has one. What is reserved is in no
// pool's gift, resting or not.
func (l *Ledger) restInPool(r Rested) {
	p := l.poolOf(r.Addr)
	if p == nil || l.reserved[r.Addr] != (lb.ServiceKey{}) {
		return
	}
	i := index(lb.FamilyOf(r.Addr))
	p.free[i].take(r.Addr)
	p.resting[i] = insertRested(p.resting[i], r)
}

// insertRested keeps a queue sorted; a new entry nearly always belongs at its end, or
// takes the place of one that rests no more.
func insertRested(q []Rested, r Rested) []Rested {
	if n := len(q); n == 0 || compareRested(q[n-1], r) < 0 {
		return append(q, r)
	}
	i, found := slices.BinarySearchFunc(q, r, compareRested)
	if found {
		q[i] = r
		return q
	}
	return slices.Insert(q, i, r)
}

// rests reports whether an entry of a queue still holds.
func (l *Ledger) rests(r Rested) bool { return l.resting[r.Addr] == r }

// endRest ends the rest of a and returns it, if it did rest. The address is then neither
// resting nor free.
func (l *Ledger) endRest(a netip.Addr) (r Rested, rested bool) {
	if r, rested = l.resting[a]; !rested {
		return r, false
	}
	delete(l.resting, a)
	own := l.former[r.Owner]
	if own = slices.DeleteFunc(own, func(x Rested) bool { return x.Addr == a }); len(own) == 0 {
		delete(l.former, r.Owner)
	} else {
		l.former[r.Owner] = own
	}
	if p := l.poolOf(a); p != nil {
		i := index(lb.FamilyOf(a))
		p.resting[i] = l.trim(p.resting[i])
	}
	l.queue = l.trim(l.queue)
	return r, true
}

// trim drops what rests no more from the front of a queue.
func (l *Ledger) trim(q []Rested) []Rested {
	for len(q) > 0 && !l.rests(q[0]) {
		q = q[1:]
	}
	if len(q) == 0 {
		return nil
	}
	return q
}

// endRests frees the addresses whose rest is over.
func (l *Ledger) endRests(now time.Time) {
	for len(l.queue) > 0 && !l.queue[0].Until.After(now) {
		a := l.queue[0].Addr
		l.endRest(a)
		l.freed(a)
	}
}
