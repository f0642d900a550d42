package ipam

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// pool is a pool of the inventory with what of it is free.
type pool struct {
	inventory.Pool
	stocks [2]stock // by family
}

// stock holds a pool's addresses of one family.
type stock struct {
	size       uint64        // addresses of the family that Services may have, or the largest number where there are more
	free       freeSet       // neither held, nor reserved, nor in quarantine
	quarantine []Quarantined // the oldest first; may hold some whose quarantine has ended
}

// grow counts the addresses of a run.
func (s *stock) grow(r run) {
	more := inventory.Range{First: r.first, Last: r.last}.Size()
	if s.size += more; s.size < more {
		s.size = math.MaxUint64
	}
}

// full describes a stock without free addresses, by the size that the inventory gives: that stays the same
// while Services are pending, which would else be told anew with each address that is given.
func (s *stock) full() string {
	if s.size == 1 {
		return "its address is held or reserved"
	}
	return fmt.Sprintf("all its %d addresses are held or reserved", s.size)
}

// of returns the stock of a family.
func (p *pool) of(f lb.Family) *stock { return &p.stocks[index(f)] }

// index returns the place of a family's addresses in a pair.
func index(f lb.Family) int { return int(f - lb.IPv4) }

// span is a run of addresses that may be given to Services, and their pool.
type span struct {
	run
	pool *pool
}

// lastOfAll is behind every other address.
var lastOfAll = netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")

// usable returns the runs of a pool that may be given, sorted: its ranges without
// the ends that skipFirstLast skips, the excludes, what is used, and what pools before it have.
func usable(from inventory.Pool, used []use, given []inventory.Range) []run {
	var runs []run
	for _, r := range from.Ranges {
		if from.SkipFirstLast {
			r = r.Inner()
		}
		runs = append(runs, run{r.First, r.Last})
	}
	runs = unused(without(without(runs, from.Exclude), given), used)
	slices.SortFunc(runs, func(a, b run) int { return a.first.Compare(b.first) })
	return runs
}

// without cuts the ranges out of the runs.
func without(runs []run, cut []inventory.Range) []run {
	for _, hole := range cut {
		i := slices.IndexFunc(runs, func(r run) bool { return overlaps(r, hole) })
		if i < 0 {
			continue
		}
		var kept []run
		for _, r := range runs {
			kept = append(kept, cutOut(r, hole)...)
		}
		runs = kept
	}
	return runs
}

func overlaps(r run, c inventory.Range) bool {
	return r.first.BitLen() == c.First.BitLen() && r.first.Compare(c.Last) <= 0 && c.First.Compare(r.last) <= 0
}

func cutOut(from run, cut inventory.Range) []run {
	if !overlaps(from, cut) {
		return []run{from}
	}
	var rest []run
	if from.first.Less(cut.First) {
		rest = append(rest, run{from.first, cut.First.Prev()})
	}
	if cut.Last.Less(from.last) {
		rest = append(rest, run{cut.Last.Next(), from.last})
	}
	return rest
}

// poolIndex indexes the pools, their ranges, and the addresses that are used or reserved outside of the ledger.
type poolIndex struct {
	pools       []*pool                        // by preference
	spans       []span                         // sorted
	used        []use                          // by the inventory and the cluster themselves; sorted
	external    map[netip.Addr][]lb.ServiceKey // that have it among their externalIPs, sorted
	reserved    map[netip.Addr]lb.ServiceKey
	reservedFor map[lb.ServiceKey][]netip.Addr // in the order of the pools
}

// poolIndexOf has all free that the pools of an inventory give.
func poolIndexOf(inv *inventory.Inventory, taken []lb.Taken) poolIndex {
	index := poolIndex{used: usesOf(inv, taken), external: externalOf(taken), reserved: map[netip.Addr]lb.ServiceKey{}, reservedFor: map[lb.ServiceKey][]netip.Addr{}}
	var given []inventory.Range // to the pools before: should two overlap, the first in order of preference has it
	for _, from := range byPreference(inv.Pools) {
		ours := &pool{Pool: from}
		index.pools = append(index.pools, ours)
		for _, run := range usable(from, index.used, given) {
			index.spans = append(index.spans, span{run, ours})
			stock := ours.of(lb.FamilyOf(run.first))
			stock.grow(run)
			stock.free.giveRun(run)
		}
		given = append(given, from.Ranges...)
		index.reserve(from.Reserved)
	}
	slices.SortFunc(index.spans, func(a, b span) int { return a.first.Compare(b.first) })
	return index
}

// byPreference sorts pools in the order in which they are tried: by priority, lower
// first, then by name.
func byPreference(pools []inventory.Pool) []inventory.Pool {
	return slices.SortedFunc(slices.Values(pools), func(a, b inventory.Pool) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
}

// SetPools makes the pools of inv those that addresses are given from, without
// what the cluster has taken. What is held stays held.
func (l *Ledger) SetPools(inv *inventory.Inventory, taken ...lb.Taken) {
	l.poolIndex = poolIndexOf(inv, taken)
	l.index()
}

func (x *poolIndex) reserve(all []inventory.Reservation) {
	for _, r := range all {
		key := lb.ServiceKey{Namespace: r.Namespace, Name: r.Name}
		x.reserved[r.Addr] = key
		x.reservedFor[key] = append(x.reservedFor[key], r.Addr)
	}
}

// index removes the addresses that are held, reserved, external IPs of Services or in quarantine from those that are free.
func (l *Ledger) index() {
	for a := range l.holdings {
		l.taken(a)
	}
	for a := range l.reserved {
		l.taken(a)
	}
	for a := range l.external {
		l.taken(a)
	}
	for _, r := range l.queue {
		if l.inQuarantine(r) {
			l.quarantineInPool(r)
		}
	}
}

// taken notes that a is no longer free.
func (x *poolIndex) taken(a netip.Addr) {
	if s := x.stockOf(a); s != nil {
		s.free.take(a)
	}
}

// freed makes a, which has no holder, free again, if it may be given at all.
func (x *poolIndex) freed(a netip.Addr) {
	if s := x.stockOf(a); s != nil && !x.isKept(a) {
		s.free.give(a)
	}
}

// stockOf returns the stock of a's family in the pool that gives it, or nil.
func (x *poolIndex) stockOf(a netip.Addr) *stock {
	if p := x.poolOf(a); p != nil {
		return p.of(lb.FamilyOf(a))
	}
	return nil
}

// poolOf returns the pool that gives a, or nil.
func (x *poolIndex) poolOf(a netip.Addr) *pool {
	if i, within := x.spanAt(a); within {
		return x.spans[i].pool
	}
	return nil
}

// Pool returns the name of the pool that a lies in now; empty: in none.
func (x *poolIndex) Pool(a netip.Addr) string {
	if p := x.poolOf(a); p != nil {
		return p.Name
	}
	return ""
}

// spanAt is the place of the last span that begins at a or before it, and whether a lies
// within; -1: there is none.
func (x *poolIndex) spanAt(a netip.Addr) (i int, within bool) {
	i, found := slices.BinarySearchFunc(x.spans, a, func(s span, a netip.Addr) int { return s.first.Compare(a) })
	if !found {
		i--
	}
	return i, i >= 0 && !x.spans[i].last.Less(a)
}

// lastAlike returns the end of the address run around a: of its span if a pool has a,
// else the last address before the next span.
func (x *poolIndex) lastAlike(a netip.Addr) netip.Addr {
	i, within := x.spanAt(a)
	switch {
	case within:
		return x.spans[i].last
	case i+1 < len(x.spans):
		return x.spans[i+1].first.Prev()
	}
	return lastOfAll
}

// poolNames names the pools, or as many as a message has room for.
func (x *poolIndex) poolNames() string {
	var names []string
	for i, p := range x.pools {
		if i == 10 {
			names = append(names, fmt.Sprintf("and %d more", len(x.pools)-i))
			break
		}
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// CountPools counts the addresses of all pools, family by family, in the order of preference. A quarantine that is over counts
// as free: the ledger ends it only when it gives something.
func (l *Ledger) CountPools(now time.Time) (all []PoolCount) {
	for _, pool := range l.pools {
		for _, f := range []lb.Family{lb.IPv4, lb.IPv6} {
			s := pool.of(f)
			if s.size == 0 {
				continue
			}
			count := PoolCount{Pool: pool.Name, Family: f, Size: s.size, Free: s.free.size()}
			for _, r := range s.quarantine {
				if l.inQuarantine(r) && !r.Until.After(now) && count.Free < math.MaxUint64 {
					count.Free++
				}
			}
			all = append(all, count)
		}
	}
	return all
}

// poolNamed returns the pool of that name, or nil.
func (x *poolIndex) poolNamed(name string) *pool {
	named, _ := inventory.Find(x.pools, func(p *pool) bool { return p.Name == name })
	return named
}
