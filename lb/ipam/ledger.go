package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Ledger says who holds which VIP, and keeps an index of what is free in each
// pool. The index grows with what is held, not with the size of a pool. It is not
// safe for concurrent use.
type Ledger struct {
	holdings  map[netip.Addr]holding
	byService map[lb.ServiceKey][]netip.Addr // sorted
	shared    map[sharing][]netip.Addr       // sorted

	quarantine map[netip.Addr]Quarantined
	former     map[lb.ServiceKey][]Quarantined // sorted
	queue      []Quarantined                   // sorted; may hold some whose quarantine has ended, but not at its front

	pools       []*pool           // by preference
	spans       []span            // sorted
	used        []inventory.Range // by the inventory and the cluster themselves
	reserved    map[netip.Addr]lb.ServiceKey
	reservedFor map[lb.ServiceKey][]netip.Addr // in the order of the pools
}

// holding is an address that is held. Without a first holder it is held by a program
// other than Plinth.
type holding struct {
	pool       string
	since      int64 // Unix time in seconds; 0: not known, and so taken for the newest
	first      Holder
	more       []Holder     // sorted by Service
	says       []Holder     // what some holders say now that do not get it; see [Ledger.Says]
	quarantine *Quarantined // that Hold or Block ended; nil: none, or the address is known to be held
}

// Holding is a VIP that is held.
type Holding struct {
	Addr    netip.Addr
	Pool    string   // that it was given from; empty: not known
	Holders []Holder // the first holder, then the others, sorted; none: held by another program
}

// NewLedger returns an empty Ledger without pools.
func NewLedger() *Ledger {
	return &Ledger{
		holdings:    map[netip.Addr]holding{},
		byService:   map[lb.ServiceKey][]netip.Addr{},
		shared:      map[sharing][]netip.Addr{},
		quarantine:  map[netip.Addr]Quarantined{},
		former:      map[lb.ServiceKey][]Quarantined{},
		reserved:    map[netip.Addr]lb.ServiceKey{},
		reservedFor: map[lb.ServiceKey][]netip.Addr{},
	}
}

// Hold notes that h holds a, given from the pool of that name. A holder that is
// there already is brought up to date. It reports whether the holder is new or changed.
func (l *Ledger) Hold(a netip.Addr, pool string, h Holder) bool {
	c, held := l.holdings[a]
	if !held {
		if r, was := l.endQuarantine(a); was {
			c.quarantine = new(r)
		}
		l.taken(a)
	}
	old, wasHolder := c.holder(h.Service)
	saidElse := wasHolder && !c.said(old).equal(old)
	c = c.with(h)
	if pool != "" {
		c.pool = pool
	}
	l.holdings[a] = c
	if !wasHolder {
		l.byService[h.Service] = insertAddr(l.byService[h.Service], a)
	}
	if wasHolder && old.equal(h) {
		return saidElse
	}
	l.unshare(a, c, old)
	for k := range sharings(lb.FamilyOf(a), h) {
		l.shared[k] = insertAddr(l.shared[k], a)
	}
	return true
}

// Says notes what a Service says that was refused, and so keeps what it holds: its
// ports, key and backends are what they are, even if it is to have them elsewhere. Who
// wants to share with it has to fit with them, and with those that it was granted. It
// reports whether it said something else before.
func (l *Ledger) Says(h Holder) (changed bool) {
	for _, a := range l.byService[h.Service] {
		c := l.holdings[a]
		granted, _ := c.holder(h.Service)
		if c.said(granted).equal(h) {
			continue
		}
		changed = true
		if c.says = unsaid(c.says, h.Service); !granted.equal(h) {
			c.says = append(c.says, h)
		}
		l.holdings[a] = c
	}
	return changed
}

// said is what a holder says, if it is something else than it was granted.
func (c holding) said(granted Holder) Holder {
	for _, h := range c.says {
		if h.Service == granted.Service {
			return h
		}
	}
	return granted
}

// unsaid is a copy of what holders say without what s says; nil: nothing.
func unsaid(says []Holder, s lb.ServiceKey) []Holder {
	if len(says) == 0 {
		return nil
	}
	says = slices.DeleteFunc(slices.Clone(says), func(h Holder) bool { return h.Service == s })
	if len(says) == 0 {
		return nil
	}
	return says
}

// HeldSince notes since when a is held, and so that it no longer is about to be. Of two
// addresses of one family a Service keeps the one that it has held longer.
func (l *Ledger) HeldSince(a netip.Addr, t time.Time) {
	if c, held := l.holdings[a]; held && !t.IsZero() {
		c.since, c.quarantine = t.Unix(), nil
		l.holdings[a] = c
	}
}

// Block notes that another program holds a, or that nobody is to have it for now. A
// quarantine goes on after that.
func (l *Ledger) Block(a netip.Addr) {
	c, held := l.holdings[a]
	if held {
		l.dropHolders(a, c)
	}
	blocked := holding{quarantine: c.quarantine}
	if r, was := l.endQuarantine(a); was {
		blocked.quarantine = new(r)
	}
	l.holdings[a] = blocked
	l.taken(a)
}

// Release notes that a Service gave a back. When it was the last holder, the
// address is in quarantine until now + [QuarantineTime], unless it is reserved. It reports whether
// it was the last.
func (l *Ledger) Release(a netip.Addr, s lb.ServiceKey, now time.Time) bool {
	last, was := l.dropHolder(a, s)
	if !was || !last {
		return last
	}
	if l.reserved[a] == (lb.ServiceKey{}) {
		l.Quarantine(Quarantined{Addr: a, Owner: s, Until: now.Add(QuarantineTime)})
	}
	return true
}

// Revert undoes Hold as if it had never been: the address is in quarantine again if it was,
// and else is free. It reports whether it is in quarantine.
func (l *Ledger) Revert(a netip.Addr, s lb.ServiceKey) (quarantined bool) {
	before := l.holdings[a].quarantine
	last, was := l.dropHolder(a, s)
	switch {
	case !was || !last:
		return false
	case before == nil:
		l.freed(a)
		return false
	}
	l.Quarantine(*before)
	return true
}

// Unblock notes that no other program holds a any more, and that it may be had again.
func (l *Ledger) Unblock(a netip.Addr) {
	c, held := l.holdings[a]
	if !held || !c.foreign() {
		return
	}
	delete(l.holdings, a)
	l.freed(a)
	if c.quarantine != nil {
		l.Quarantine(*c.quarantine)
	}
}

// Holds returns the addresses that a Service holds, sorted. It must not be changed.
func (l *Ledger) Holds(s lb.ServiceKey) []netip.Addr { return l.byService[s] }

// Holding returns who holds a.
func (l *Ledger) Holding(a netip.Addr) (Holding, bool) {
	c, held := l.holdings[a]
	if !held {
		return Holding{}, false
	}
	return c.public(a), true
}

// Holdings returns all that is held, sorted by address.
func (l *Ledger) Holdings() []Holding {
	all := make([]Holding, 0, len(l.holdings))
	for a, c := range l.holdings {
		all = append(all, c.public(a))
	}
	slices.SortFunc(all, func(x, y Holding) int { return x.Addr.Compare(y.Addr) })
	return all
}

// Pool returns the name of the pool that a lies in now; empty: in none.
func (l *Ledger) Pool(a netip.Addr) string {
	if p := l.poolOf(a); p != nil {
		return p.Name
	}
	return ""
}

// Uses reports whether the inventory or the cluster itself uses a: it is a machine's,
// a router's, a pod's or a cluster IP, or can be nobody's.
func (l *Ledger) Uses(a netip.Addr) bool {
	in := func(r inventory.Range) bool { return r.Contains(a) }
	return slices.ContainsFunc(never, in) || slices.ContainsFunc(l.used, in)
}

// MayJoin reports whether h may hold a, which others hold, beside them; a Reason
// other than "" says why not.
func (l *Ledger) MayJoin(a netip.Addr, h Holder) lb.Reason {
	reason, _ := l.holdings[a].refuses(h)
	return reason
}

// dropHolder takes a holder off a holding, and reports whether it was the last holder and
// whether it was one at all.
func (l *Ledger) dropHolder(a netip.Addr, s lb.ServiceKey) (last, was bool) {
	c := l.holdings[a]
	h, was := c.holder(s)
	if !was {
		return false, false
	}
	c = c.minus(s)
	if l.byService[s] = removeAddr(l.byService[s], a); len(l.byService[s]) == 0 {
		delete(l.byService, s)
	}
	l.unshare(a, c, h)
	if c.foreign() {
		delete(l.holdings, a)
		return true, true
	}
	l.holdings[a] = c
	return false, true
}

func (l *Ledger) dropHolders(a netip.Addr, c holding) {
	for _, h := range c.public(a).Holders {
		l.dropHolder(a, h.Service)
	}
}

// freed makes a, which nobody holds, free again, if it may be given at all.
func (l *Ledger) freed(a netip.Addr) {
	if p := l.poolOf(a); p != nil && l.reserved[a] == (lb.ServiceKey{}) {
		p.free[index(lb.FamilyOf(a))].give(a)
	}
}

// foreign reports whether no Service is known to hold the address.
func (c holding) foreign() bool { return c.first.Service == lb.ServiceKey{} }

// before reports whether c was made before o; false if neither is known to be.
func (c holding) before(o holding) bool {
	return c.since != 0 && (o.since == 0 || c.since < o.since)
}

// each calls f for every holder until f says no.
func (c holding) each(f func(Holder) bool) {
	if c.foreign() || !f(c.first) {
		return
	}
	for _, h := range c.more {
		if !f(h) {
			return
		}
	}
}

func (c holding) holder(s lb.ServiceKey) (found Holder, ok bool) {
	c.each(func(h Holder) bool {
		if h.Service == s {
			found, ok = h, true
		}
		return !ok
	})
	return found, ok
}

// refuses says why h may not join, and which holder stands in the way.
func (c holding) refuses(h Holder) (reason lb.Reason, by lb.ServiceKey) {
	if c.foreign() {
		return lb.AddressInUse, lb.ServiceKey{}
	}
	c.each(func(o Holder) bool {
		if o.Service != h.Service {
			reason, by = h.refusesToShare(o), o.Service
		}
		return reason == ""
	})
	for _, o := range c.says {
		if reason == "" && o.Service != h.Service {
			reason, by = h.refusesToShare(o), o.Service
		}
	}
	return reason, by
}

// with returns the holding with h on it. Holders that others still see are copied.
func (c holding) with(h Holder) holding {
	c.says = unsaid(c.says, h.Service)
	if c.foreign() || c.first.Service == h.Service {
		c.first = h
		return c
	}
	i, found := slices.BinarySearchFunc(c.more, h, compareHolders)
	c.more = slices.Clone(c.more)
	if found {
		c.more[i] = h
	} else {
		c.more = slices.Insert(c.more, i, h)
	}
	return c
}

func (c holding) minus(s lb.ServiceKey) holding {
	c.says = unsaid(c.says, s)
	if c.first.Service != s {
		c.more = slices.DeleteFunc(slices.Clone(c.more), func(h Holder) bool { return h.Service == s })
		return c
	}
	if len(c.more) == 0 {
		return holding{pool: c.pool}
	}
	c.first, c.more = c.more[0], slices.Clone(c.more[1:])
	return c
}

func (c holding) public(a netip.Addr) Holding {
	out := Holding{Addr: a, Pool: c.pool}
	c.each(func(h Holder) bool {
		out.Holders = append(out.Holders, h)
		return true
	})
	return out
}

func compareHolders(a, b Holder) int { return a.Service.Compare(b.Service) }

func insertAddr(s []netip.Addr, a netip.Addr) []netip.Addr {
	i, found := slices.BinarySearchFunc(s, a, netip.Addr.Compare)
	if found {
		return s
	}
	return slices.Insert(s, i, a)
}

func removeAddr(s []netip.Addr, a netip.Addr) []netip.Addr {
	if i, found := slices.BinarySearchFunc(s, a, netip.Addr.Compare); found {
		return slices.Delete(s, i, i+1)
	}
	return s
}
