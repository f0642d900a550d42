package ipam

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

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

	namespaces map[string]map[string]string // labels of Namespaces, by which pools select them

	poolIndex
}

// holding is an address that is held. Without holders it is held by a program other than
// Plinth.
type holding struct {
	pool       string
	since      int64        // Unix time in seconds; 0: not known, and so taken for the newest
	holders    []Holder     // the first holder, then the others, sorted; copied when it changes
	says       []Holder     // what some holders say now that do not get it; see [Ledger.Says]
	quarantine *Quarantined // that Hold or Block ended; nil: none, or the address is known to be held
}

// Holding is a VIP that is held. Its holders must not be changed.
type Holding struct {
	Addr    netip.Addr
	Pool    string   // that it was given from; empty: not known
	Holders []Holder // the first holder, then the others, sorted; none: held by another program
}

// NewLedger returns an empty Ledger without pools.
func NewLedger() *Ledger {
	return &Ledger{
		holdings:   map[netip.Addr]holding{},
		byService:  map[lb.ServiceKey][]netip.Addr{},
		shared:     map[sharing][]netip.Addr{},
		quarantine: map[netip.Addr]Quarantined{},
		former:     map[lb.ServiceKey][]Quarantined{},
		namespaces: map[string]map[string]string{},
	}
}

// Hold notes that h holds a, given from the pool of that name. A holder that is
// there already is brought up to date. It reports whether the holder is new or changed.
func (l *Ledger) Hold(a netip.Addr, pool string, h Holder) bool {
	c, held := l.holdings[a]
	if !held {
		c.quarantine = l.endQuarantine(a)
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
		if c.says = others(c.says, h.Service); !granted.equal(h) {
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

// others is a copy of holders without s; nil: there is no other.
func others(all []Holder, s lb.ServiceKey) []Holder {
	all = slices.DeleteFunc(slices.Clone(all), func(h Holder) bool { return h.Service == s })
	if len(all) == 0 {
		return nil
	}
	return all
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
	c := l.holdings[a]
	for _, h := range c.holders {
		l.dropHolder(a, h.Service)
	}
	l.holdings[a] = holding{quarantine: cmp.Or(l.endQuarantine(a), c.quarantine)}
	l.taken(a)
}

// Release notes that a Service gave a back. When it was the last holder, the
// address is in quarantine until now + [QuarantineTime], unless it is reserved. It reports whether
// it was the last.
func (l *Ledger) Release(a netip.Addr, s lb.ServiceKey, now time.Time) bool {
	if !l.dropHolder(a, s) {
		return false
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
	return l.dropHolder(a, s) && l.resume(a, before)
}

// Unblock notes that no other program holds a any more, and that it may be had again.
func (l *Ledger) Unblock(a netip.Addr) {
	if c, held := l.holdings[a]; held && c.foreign() {
		delete(l.holdings, a)
		l.resume(a, c.quarantine)
	}
}

// resume has an address that nobody holds any more be what it was before it was held: in
// quarantine, which it reports, or free.
func (l *Ledger) resume(a netip.Addr, before *Quarantined) (quarantined bool) {
	if before == nil {
		l.freed(a)
		return false
	}
	l.Quarantine(*before)
	return true
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

// MayJoin reports whether h may hold a, which others hold, beside them; a Reason
// other than "" says why not.
func (l *Ledger) MayJoin(a netip.Addr, h Holder) lb.Reason {
	reason, _ := l.holdings[a].refuses(h)
	return reason
}

// dropHolder takes a holder off a holding, and reports whether it was the last.
func (l *Ledger) dropHolder(a netip.Addr, s lb.ServiceKey) (last bool) {
	c := l.holdings[a]
	h, was := c.holder(s)
	if !was {
		return false
	}
	c.holders, c.says = others(c.holders, s), others(c.says, s)
	if l.byService[s] = removeAddr(l.byService[s], a); len(l.byService[s]) == 0 {
		delete(l.byService, s)
	}
	l.unshare(a, c, h)
	if c.foreign() {
		delete(l.holdings, a)
		return true
	}
	l.holdings[a] = c
	return false
}

// foreign reports whether no Service is known to hold the address.
func (c holding) foreign() bool { return len(c.holders) == 0 }

// before reports whether c was made before o; false if neither is known to be.
func (c holding) before(o holding) bool {
	return c.since != 0 && (o.since == 0 || c.since < o.since)
}

// place is where a Service stands among the holders; negative: it is none.
func (c holding) place(s lb.ServiceKey) int {
	return slices.IndexFunc(c.holders, func(h Holder) bool { return h.Service == s })
}

func (c holding) holder(s lb.ServiceKey) (Holder, bool) {
	if i := c.place(s); i >= 0 {
		return c.holders[i], true
	}
	return Holder{}, false
}

// clashes reports whether a holder may not stay beside the others. Those of which an object alone
// tells, and nobody has looked at yet, are no reason: they move when they are looked at, if they
// clash with it. Else two of them would each wait for the other.
func (c holding) clashes(h Holder) bool {
	return slices.ContainsFunc(slices.Concat(c.holders, c.says), func(o Holder) bool {
		unknown := o.Sharing == "" && len(o.Ports) == 0 && o.Backends == ""
		return o.Service != h.Service && !unknown && h.refusesToShare(o) != ""
	})
}

// refuses says why h may not join, and which holder stands in the way.
func (c holding) refuses(h Holder) (lb.Reason, lb.ServiceKey) {
	if c.foreign() {
		return lb.AddressInUse, lb.ServiceKey{}
	}
	for _, all := range [...][]Holder{c.holders, c.says} {
		for _, o := range all {
			if o.Service == h.Service {
				continue
			}
			if reason := h.refusesToShare(o); reason != "" {
				return reason, o.Service
			}
		}
	}
	return "", lb.ServiceKey{}
}

// with returns the holding with h on it.
func (c holding) with(h Holder) holding {
	c.says, c.holders = others(c.says, h.Service), slices.Clone(c.holders)
	if i := c.place(h.Service); i >= 0 {
		c.holders[i] = h
		return c
	}
	first := min(1, len(c.holders))
	i, _ := slices.BinarySearchFunc(c.holders[first:], h, compareHolders)
	c.holders = slices.Insert(c.holders, first+i, h)
	return c
}

func (c holding) public(a netip.Addr) Holding { return Holding{a, c.pool, c.holders} }

// sharing is what holders of one VIP have in common: the key within its namespace, the
// backends and the family. The index has the VIPs of each, and for each port of
// theirs those on which it is taken.
type sharing struct {
	namespace, key, backends string
	family                   lb.Family
	port                     Port // zero: whatever the ports
}

// sharings are the places of the index that h puts a VIP of the family in.
func sharings(f lb.Family, h Holder) iter.Seq[sharing] {
	return func(yield func(sharing) bool) {
		k := sharing{namespace: h.Service.Namespace, key: h.Sharing, backends: h.Backends, family: f}
		if h.Sharing == "" || !yield(k) {
			return
		}
		for _, k.port = range h.Ports {
			if !yield(k) {
				return
			}
		}
	}
}

// unshare takes a out of the places of the index where h put it, but for those where
// another holder puts it too.
func (l *Ledger) unshare(a netip.Addr, c holding, h Holder) {
	for k := range sharings(lb.FamilyOf(a), h) {
		if c.has(k) {
			continue
		}
		if l.shared[k] = removeAddr(l.shared[k], a); len(l.shared[k]) == 0 {
			delete(l.shared, k)
		}
	}
}

// has reports whether a holder puts the VIP in that place.
func (c holding) has(k sharing) bool {
	return slices.ContainsFunc(c.holders, func(h Holder) bool {
		return h.Sharing == k.key && h.Service.Namespace == k.namespace && h.Backends == k.backends && (k.port == Port{} || h.serves(k.port))
	})
}

// serves reports whether a holder serves a port.
func (h Holder) serves(p Port) bool {
	_, found := slices.BinarySearchFunc(h.Ports, p, Port.Compare)
	return found
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
