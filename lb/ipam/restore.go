package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// Remembered is who held an address before etcd was restored from a backup.
type Remembered struct {
	Addr    netip.Addr
	Pool    string
	Holders []Holder      // that are there still, and served
	Former  lb.ServiceKey // whose the address is while nobody of Holders may have it
}

// RestoreFrom enters who held what before a restore and is named by no object now, unless it
// has another VIP of the family. It returns the addresses that are to be claimed anew. One that
// nobody of them may have is put into quarantine.
func (s *State) RestoreFrom(before []Remembered, now time.Time) (missing []Holding, e Effects) {
	for _, r := range before {
		x, c := s.addresses.of(r.Addr), Holding{Addr: r.Addr, Pool: r.Pool}
		for _, h := range r.Holders {
			named := x.object != nil && x.object.HeldBy(h.Service)
			if named || s.ledger.holdsOther(r.Addr, h.Service) || x.object != nil && s.ledger.MayJoin(r.Addr, h) != "" {
				continue
			}
			s.hold(r.Addr, r.Pool, h)
			s.retry(0, h.Service)
			c.Holders = append(c.Holders, h)
		}
		switch {
		case len(c.Holders) > 0:
			missing = append(missing, c)
		case x.object == nil:
			s.ledger.Quarantine(Quarantined{Addr: r.Addr, Owner: r.Former, Until: now.Add(QuarantineTime)})
		}
	}
	return missing, s.out.take()
}

// holdsOther reports whether k holds another address of a's family.
func (l *Ledger) holdsOther(a netip.Addr, k lb.ServiceKey) bool {
	return slices.ContainsFunc(l.Holds(k), func(x netip.Addr) bool { return x != a && lb.FamilyOf(x) == lb.FamilyOf(a) })
}

// Missing returns what Services hold that is not in a list of all objects, and forgets that it
// ever had one.
func (s *State) Missing(listed map[netip.Addr]bool) (all []Holding) {
	for _, c := range s.Holdings() {
		if !listed[c.Addr] && len(c.Holders) > 0 {
			s.addresses.learn(c.Addr, func(x *addressRecord) { x.object = nil })
			all = append(all, c)
		}
	}
	return all
}
