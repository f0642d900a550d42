package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// State is all that is known of addresses and of the Services that ask for them. Its verbs
// take what happened, and return the [Effects] that follow from it; nothing else changes it.
// It is not safe for concurrent use.
type State struct {
	ledger    *Ledger
	addresses map[netip.Addr]*addressRecord
	services  map[lb.ServiceKey]*serviceRecord
	pending   map[lb.ServiceKey]*pending // of those that have less than they ask for
	out       Effects                    // of the verb that runs
}

// addressRecord is what is known of an address besides who holds it, which the ledger has. An
// address of which there is no more to say has none.
type addressRecord struct {
	object    *Object         // nil: there is none of ours
	foreign   bool            // another program's object has it
	releasing lb.ServiceKey   // released it, and its object is still there; zero: nobody
	shownBy   []lb.ServiceKey // statuses show it, of Services that do not hold it
}

// serviceRecord is what is known of a Service besides what it holds.
type serviceRecord struct {
	last  *Decision    // that was carried out; nil: none
	uid   string       // of the Service that it was about
	shows []netip.Addr // that its status shows and it does not hold
}

// Effects is what follows from what happened.
type Effects struct {
	Reconcile  []Retry // Services to be looked at again
	Quarantine bool    // it has changed, and is to be written down
	Stale      []Stale // statuses that were found to show what their Services do not hold
}

// Retry names a Service to be looked at again, after a while or at once.
type Retry struct {
	Service lb.ServiceKey
	After   time.Duration
}

// Stale is an address that a status shows and its Service does not hold: nobody gets it
// before that is cleared.
type Stale struct {
	Service lb.ServiceKey
	Addr    netip.Addr
}

// NewState returns a State without pools that knows of nothing.
func NewState() *State {
	return &State{
		ledger:    NewLedger(),
		addresses: map[netip.Addr]*addressRecord{},
		services:  map[lb.ServiceKey]*serviceRecord{},
		pending:   map[lb.ServiceKey]*pending{},
	}
}

// effects returns what has come together since it was last called.
func (s *State) effects() Effects {
	e := s.out
	s.out = Effects{}
	return e
}

func (s *State) reconcile(k lb.ServiceKey) {
	s.out.Reconcile = append(s.out.Reconcile, Retry{Service: k})
}

// known is what is known of an address; zero: nothing.
func (s *State) known(a netip.Addr) addressRecord {
	if x := s.addresses[a]; x != nil {
		return *x
	}
	return addressRecord{}
}

// learn changes what is known of an address.
func (s *State) learn(a netip.Addr, change func(*addressRecord)) {
	x := s.known(a)
	change(&x)
	if x.object == nil && !x.foreign && x.releasing == (lb.ServiceKey{}) && len(x.shownBy) == 0 {
		delete(s.addresses, a)
		return
	}
	s.addresses[a] = &x
}

// record is what is known of a Service; it is made where there is none.
func (s *State) record(k lb.ServiceKey) *serviceRecord {
	r := s.services[k]
	if r == nil {
		r = &serviceRecord{}
		s.services[k] = r
	}
	return r
}

// lastOf is the decision about a Service that was carried out last; zero: none was.
func (s *State) lastOf(k lb.ServiceKey) Decision {
	if r := s.services[k]; r != nil && r.last != nil {
		return *r.last
	}
	return Decision{}
}

// forgetIfEmpty drops the record of a Service that says nothing.
func (s *State) forgetIfEmpty(k lb.ServiceKey) {
	if r := s.services[k]; r != nil && r.last == nil && len(r.shows) == 0 {
		delete(s.services, k)
	}
}

// Knows reports whether a Service holds something, waits, or was given an answer.
func (s *State) Knows(k lb.ServiceKey) bool {
	return len(s.ledger.Holds(k)) > 0 || s.services[k] != nil || s.pending[k] != nil
}

// Holds returns the addresses that a Service holds, sorted.
func (s *State) Holds(k lb.ServiceKey) []netip.Addr { return slices.Clone(s.ledger.Holds(k)) }

// HoldsMore reports whether a Service holds more than it was told of: what it has moved away
// from is released once its status does not show it any more.
func (s *State) HoldsMore(k lb.ServiceKey) bool {
	r := s.services[k]
	return r != nil && r.last != nil && len(s.ledger.Holds(k)) > len(r.last.VIPs)
}

// IsHolder reports whether a Service holds an address.
func (s *State) IsHolder(a netip.Addr, k lb.ServiceKey) bool {
	return slices.Contains(s.ledger.Holds(k), a)
}

// Pool returns the name of the pool that an address lies in now; empty: in none.
func (s *State) Pool(a netip.Addr) string { return s.ledger.Pool(a) }

// Uses is [Ledger.Uses].
func (s *State) Uses(a netip.Addr) bool { return s.ledger.Uses(a) }

// Claims is [Ledger.Claims].
func (s *State) Claims() []Claim { return s.ledger.Claims() }

// Object returns the object of an address, if it has one of ours.
func (s *State) Object(a netip.Addr) (Object, bool) {
	if o := s.known(a).object; o != nil {
		return *o, true
	}
	return Object{}, false
}

// Objects returns all objects, in no order.
func (s *State) Objects() []Object {
	all := make([]Object, 0, len(s.addresses))
	for _, x := range s.addresses {
		if x.object != nil {
			all = append(all, *x.object)
		}
	}
	return all
}

// Unlisted returns what is held, or blocked, and is not in a list of all objects.
func (s *State) Unlisted(listed map[netip.Addr]bool) (all []netip.Addr) {
	for _, c := range s.ledger.Claims() {
		if !listed[c.Addr] {
			all = append(all, c.Addr)
		}
	}
	return all
}

// MayKeep is [Ledger.MayTakeOver].
func (s *State) MayKeep(a netip.Addr, r Request, now time.Time) lb.Reason {
	return s.ledger.MayTakeOver(a, r, now)
}

// SetPools makes the pools of an inventory those that addresses are given from, without the
// prefixes that the cluster uses for itself. What is held stays held. Who waits is served by
// [State.OfferAll].
func (s *State) SetPools(inv *inventory.Inventory, cluster ...netip.Prefix) {
	s.ledger.SetPools(inv, cluster...)
}

// Count is how much there is of what.
type Count struct {
	Held        map[string]int    // VIPs that are held, by pool
	Pending     map[lb.Reason]int // Services that have less than they ask for, by the first reason
	Quarantined int
}

// Count counts what there is at the time now.
func (s *State) Count(now time.Time) Count {
	n := Count{Held: map[string]int{}, Pending: map[lb.Reason]int{}}
	for _, c := range s.ledger.Claims() {
		if len(c.Holders) > 0 {
			n.Held[s.ledger.Pool(c.Addr)]++
		}
	}
	for k := range s.pending {
		if d := s.lastOf(k); len(d.Denials) > 0 {
			n.Pending[d.Denials[0].Reason]++
		}
	}
	for _, r := range s.ledger.Resting() { // the ledger ends a rest only when it gives something
		if r.Until.After(now) {
			n.Quarantined++
		}
	}
	return n
}

// And returns what follows from both.
func (e Effects) And(o Effects) Effects {
	return Effects{
		Reconcile:  append(e.Reconcile, o.Reconcile...),
		Quarantine: e.Quarantine || o.Quarantine,
		Stale:      append(e.Stale, o.Stale...),
	}
}

// ClaimOf returns who holds an address; a Claim without holders is blocked.
func (s *State) ClaimOf(a netip.Addr) (Claim, bool) { return s.ledger.Claim(a) }
