package ipam

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// Restore adds the holders of an address from before etcd was restored from a backup to the ledger: those of holders,
// which are there still, that the address' object does not name now, unless they have another VIP
// of the family and do not ask for this one, or its present holder does not share it. An address that none of them may have
// is put into quarantine, as former's. It reports whether any of them holds it anew.
func (s *State) Restore(addr netip.Addr, pool string, holders []Request, former lb.ServiceKey, now time.Time) (anew bool, e Effects) {
	record := s.addresses.of(addr)
	for _, request := range holders {
		named, other := record.object != nil && record.object.HeldBy(request.Service), s.ledger.holdsOther(addr, request.Service) && !slices.Contains(request.Addrs, addr)
		if named || other || record.object != nil && s.ledger.MayJoin(addr, request.Holder) != "" {
			continue
		}
		s.ledger.holdBeside(addr, pool, request.Holder)
		s.out.retry(0, request.Service)
		anew = true
	}
	if !anew && record.object == nil {
		s.ledger.Quarantine(Quarantined{Addr: addr, Owner: former, Until: now.Add(QuarantineTime)})
		s.out.Quarantine = true
	}
	return anew, s.out.take()
}

// Claimed reports whether all holders of these addresses are named by their objects.
func (s *State) Claimed(all iter.Seq[netip.Addr]) bool {
	for a := range all {
		held, _ := s.Holding(a)
		if slices.ContainsFunc(held.Holders, func(h Holder) bool { return !s.Object(a).HeldBy(h.Service) }) {
			return false
		}
	}
	return true
}

// holdsOther reports whether k holds another address of a's family.
func (l *Ledger) holdsOther(a netip.Addr, k lb.ServiceKey) bool {
	return slices.ContainsFunc(l.Holds(k), func(x netip.Addr) bool { return x != a && lb.FamilyOf(x) == lb.FamilyOf(a) })
}
