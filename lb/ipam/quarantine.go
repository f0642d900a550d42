package ipam

import (
	"net/netip"
	"plinth.dev/plinth/lb"
	"slices"
	"time"
)

// QuarantineTime is the time for which a released address is in quarantine: within it only its former
// owner gets it, unless nothing else is free. Caches and clients of the former
// Service then do not meet a stranger.
const QuarantineTime = 10 * time.Minute

// Quarantined is an address that was released and is not to be given to a Service
// other than its former owner before Until, unless nothing else is free.
type Quarantined struct {
	Addr  netip.Addr
	Owner lb.ServiceKey
	Until time.Time
}

// compareQuarantined sorts by the end of the quarantine, then by address.
func compareQuarantined(a, b Quarantined) int {
	if c := a.Until.Compare(b.Until); c != 0 {
		return c
	}
	return a.Addr.Compare(b.Addr)
}

// Quarantined returns all addresses in quarantine, and those that are blocked and will be in it
// once they no longer are, sorted by the end of their quarantine.
func (l *Ledger) Quarantined() []Quarantined {
	all := l.blockedQuarantines()
	for _, r := range l.queue {
		if l.inQuarantine(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, compareQuarantined)
	return all
}

func (l *Ledger) blockedQuarantines() (all []Quarantined) {
	for _, c := range l.holdings {
		if c.foreign() && c.quarantine != nil {
			all = append(all, *c.quarantine)
		}
	}
	return all
}

// Quarantine puts a free address into quarantine, and one that is blocked once it no longer is.
func (l *Ledger) Quarantine(quarantined Quarantined) {
	if c, held := l.holdings[quarantined.Addr]; held {
		if c.foreign() {
			c.quarantine = new(quarantined)
			l.holdings[quarantined.Addr] = c
		}
		return
	}
	l.endQuarantine(quarantined.Addr)
	l.quarantine[quarantined.Addr] = quarantined
	l.former[quarantined.Owner] = insertQuarantined(l.former[quarantined.Owner], quarantined)
	l.queue = insertQuarantined(l.queue, quarantined)
	l.quarantineInPool(quarantined)
}

// quarantineInPool adds the quarantine of an address to its pool, if it has one. An address that is kept for a
// Service is none that a pool may give, in quarantine or not.
func (l *Ledger) quarantineInPool(r Quarantined) {
	if s := l.stockOf(r.Addr); s != nil && !l.isKept(r.Addr) {
		s.free.take(r.Addr)
		s.quarantine = insertQuarantined(s.quarantine, r)
	}
}

// insertQuarantined keeps a queue sorted; a new entry nearly always belongs at its end, or
// takes the place of one whose quarantine has ended.
func insertQuarantined(quarantined []Quarantined, entry Quarantined) []Quarantined {
	if n := len(quarantined); n == 0 || compareQuarantined(quarantined[n-1], entry) < 0 {
		return append(quarantined, entry)
	}
	i, found := slices.BinarySearchFunc(quarantined, entry, compareQuarantined)
	if found {
		quarantined[i] = entry
		return quarantined
	}
	return slices.Insert(quarantined, i, entry)
}

// quarantineOf is the quarantine of an address, or the one that it is in once it no longer is
// blocked; zero: it is in none.
func (l *Ledger) quarantineOf(a netip.Addr) Quarantined {
	if c := l.holdings[a]; c.foreign() && c.quarantine != nil {
		return *c.quarantine
	}
	return l.quarantine[a]
}

// inQuarantine reports whether an entry of a queue still holds.
func (l *Ledger) inQuarantine(r Quarantined) bool { return l.quarantine[r.Addr] == r }

// endQuarantine ends the quarantine of a and returns it; nil: it was in none. The address is
// then neither in quarantine nor free.
func (l *Ledger) endQuarantine(addr netip.Addr) *Quarantined {
	quarantined, was := l.quarantine[addr]
	if !was {
		return nil
	}
	delete(l.quarantine, addr)
	own := l.former[quarantined.Owner]
	if own = slices.DeleteFunc(own, func(x Quarantined) bool { return x.Addr == addr }); len(own) == 0 {
		delete(l.former, quarantined.Owner)
	} else {
		l.former[quarantined.Owner] = own
	}
	if s := l.stockOf(addr); s != nil {
		s.quarantine = l.trim(s.quarantine)
	}
	l.queue = l.trim(l.queue)
	return new(quarantined)
}

// trim drops ended quarantines from the front of a queue.
func (l *Ledger) trim(quarantined []Quarantined) []Quarantined {
	for len(quarantined) > 0 && !l.inQuarantine(quarantined[0]) {
		quarantined = quarantined[1:]
	}
	if len(quarantined) == 0 {
		return nil
	}
	return quarantined
}

// endQuarantines frees the addresses whose quarantine is over.
func (l *Ledger) endQuarantines(now time.Time) {
	for len(l.queue) > 0 && !l.queue[0].Until.After(now) {
		a := l.queue[0].Addr
		l.endQuarantine(a)
		l.freed(a)
	}
}
