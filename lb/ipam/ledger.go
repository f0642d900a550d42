package ipam

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// Ledger records the holders of each VIP, and keeps an index of the free addresses of each
// pool. The index grows with the number of held addresses, not with the size of a pool. It is not
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
	says       []Holder     // the latest requests of some refused holders; see [Ledger.Says]
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
func (l *Ledger) Hold(addr netip.Addr, pool string, holder Holder) bool {
	entry, held := l.holdings[addr]
	if !held {
		entry.quarantine = l.endQuarantine(addr)
		l.taken(addr)
	}
	old, wasHolder := entry.holder(holder.Service)
	saidElse := wasHolder && !entry.said(old).equal(old)
	entry = entry.with(holder)
	if pool != "" {
		entry.pool = pool
	}
	l.holdings[addr] = entry
	if !wasHolder {
		l.byService[holder.Service] = insertAddr(l.byService[holder.Service], addr)
	}
	if wasHolder && old.equal(holder) {
		return saidElse
	}
	l.unshare(addr, entry, old)
	for k := range sharings(lb.FamilyOf(addr), holder) {
		l.shared[k] = insertAddr(l.shared[k], addr)
	}
	return true
}

// holdBeside is Hold, but for a holder that may not share with those before it: that one is entered
// without its ports and key, and so moves when it is reconciled.
func (l *Ledger) holdBeside(a netip.Addr, pool string, h Holder) {
	if c, held := l.holdings[a]; held && !c.foreign() && l.MayJoin(a, h) != "" {
		h = Holder{Service: h.Service}
	}
	l.Hold(a, pool, h)
}

// Says notes the latest properties of a Service that was refused, and so keeps the addresses that it holds: its
// ports, key and backends are in use there, even if it is to have them elsewhere. A Service that
// wants to share with it has to fit with them, and with those that it was granted. It
// reports whether they have changed.
func (l *Ledger) Says(holder Holder) (changed bool) {
	for _, addr := range l.byService[holder.Service] {
		entry := l.holdings[addr]
		granted, _ := entry.holder(holder.Service)
		if entry.said(granted).equal(holder) {
			continue
		}
		changed = true
		if entry.says = others(entry.says, holder.Service); !granted.equal(holder) {
			entry.says = append(entry.says, holder)
		}
		l.holdings[addr] = entry
	}
	return changed
}

// said returns a holder as its Service describes it, or as it was granted where that is the same.
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

// Block notes that another program holds a, or that no Service is to have it for now. A
// quarantine goes on after that.
func (l *Ledger) Block(addr netip.Addr) {
	c := l.holdings[addr]
	for _, h := range c.holders {
		l.dropHolder(addr, h.Service)
	}
	l.holdings[addr] = holding{quarantine: cmp.Or(l.endQuarantine(addr), c.quarantine)}
	l.taken(addr)
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

// resume returns an address without holders to its state from before it was held: in
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

// IsHolder reports whether a Service holds an address.
func (l *Ledger) IsHolder(a netip.Addr, k lb.ServiceKey) bool {
	return slices.Contains(l.byService[k], a)
}

// Holding returns the holders of a; false: it has none.
func (l *Ledger) Holding(a netip.Addr) (Holding, bool) {
	c, held := l.holdings[a]
	if !held {
		return Holding{}, false
	}
	return c.public(a), true
}

// Holdings returns all addresses that are held, sorted, with their holders.
func (l *Ledger) Holdings() []Holding {
	all := make([]Holding, 0, len(l.holdings))
	for a, c := range l.holdings {
		all = append(all, c.public(a))
	}
	slices.SortFunc(all, func(x, y Holding) int { return x.Addr.Compare(y.Addr) })
	return all
}

// MayJoin reports whether h may hold a, which others hold, beside them; a Reason
// other than "" is the refusal.
func (l *Ledger) MayJoin(a netip.Addr, h Holder) lb.Reason {
	reason, _ := l.holdings[a].refuses(h)
	return reason
}

// dropHolder takes a holder off a holding, and reports whether it was the last.
func (l *Ledger) dropHolder(addr netip.Addr, service lb.ServiceKey) (last bool) {
	entry := l.holdings[addr]
	holder, was := entry.holder(service)
	if !was {
		return false
	}
	entry.holders, entry.says = others(entry.holders, service), others(entry.says, service)
	if l.byService[service] = removeAddr(l.byService[service], addr); len(l.byService[service]) == 0 {
		delete(l.byService, service)
	}
	l.unshare(addr, entry, holder)
	if entry.foreign() {
		delete(l.holdings, addr)
		return true
	}
	l.holdings[addr] = entry
	return false
}

// foreign reports whether no Service is known to hold the address.
func (c holding) foreign() bool { return len(c.holders) == 0 }

// before reports whether c was made before o; false if neither is known to be.
func (c holding) before(o holding) bool {
	return c.since != 0 && (o.since == 0 || c.since < o.since)
}

// place returns the index of a Service among the holders; negative: it is none.
func (c holding) place(s lb.ServiceKey) int {
	return slices.IndexFunc(c.holders, func(h Holder) bool { return h.Service == s })
}

func (c holding) holder(s lb.ServiceKey) (Holder, bool) {
	if i := c.place(s); i >= 0 {
		return c.holders[i], true
	}
	return Holder{}, false
}

// clashes reports whether a holder may not stay beside the others. Those that are known from an object alone,
// and were not reconciled yet, are no reason: they move when they are reconciled, if they
// clash with it. Else two of them would each wait for the other.
func (c holding) clashes(h Holder) bool {
	return slices.ContainsFunc(slices.Concat(c.holders, c.says), func(o Holder) bool {
		unknown := o.Sharing == "" && len(o.Ports) == 0 && o.Backends == ""
		return o.Service != h.Service && !unknown && h.refusesToShare(o) != ""
	})
}

// refuses returns the reason why a holder may not join, and the holder that stands in the way.
func (c holding) refuses(holder Holder) (lb.Reason, lb.ServiceKey) {
	if c.foreign() {
		return lb.AddressInUse, lb.ServiceKey{}
	}
	for _, all := range [...][]Holder{c.holders, c.says} {
		for _, o := range all {
			if o.Service == holder.Service {
				continue
			}
			if reason := holder.refusesToShare(o); reason != "" {
				return reason, o.Service
			}
		}
	}
	return "", lb.ServiceKey{}
}

// with returns the holding with h on it.
func (c holding) with(holder Holder) holding {
	c.says, c.holders = others(c.says, holder.Service), slices.Clone(c.holders)
	if i := c.place(holder.Service); i >= 0 {
		c.holders[i] = holder
		return c
	}
	first := min(1, len(c.holders))
	i, _ := slices.BinarySearchFunc(c.holders[first:], holder, compareHolders)
	c.holders = slices.Insert(c.holders, first+i, holder)
	return c
}

func (c holding) public(a netip.Addr) Holding { return Holding{a, c.pool, c.holders} }

// sharing holds the properties that holders of one VIP have in common: the key within its namespace, the
// backends and the family. The index has the VIPs of each, and for each port of
// theirs those on which it is taken.
type sharing struct {
	namespace, key, backends string
	family                   lb.Family
	port                     Port // zero: whatever the ports
}

// sharings are the places of the index that h puts a VIP of the family in.
func sharings(f lb.Family, holder Holder) iter.Seq[sharing] {
	return func(yield func(sharing) bool) {
		k := sharing{namespace: holder.Service.Namespace, key: holder.Sharing, backends: holder.Backends, family: f}
		if holder.Sharing == "" || !yield(k) {
			return
		}
		for _, k.port = range holder.Ports {
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
