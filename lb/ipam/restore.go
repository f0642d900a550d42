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
	Holders []Request     // of those that are there still, and served
	Former  lb.ServiceKey // whose the address is while nobody of Holders may have it
}

// RestoreFrom enters who held what before a restore and is named by no object now, unless it
// has another VIP of the family. It returns those, to claim it anew. An address that nobody of
// them may have is put into quarantine.
func (s *State) RestoreFrom(before []Remembered, now time.Time) (missing []Remembered, e Effects) {
	for _, r := range before {
		x, all := s.addresses.of(r.Addr), r.Holders
		r.Holders = nil
		for _, h := range all {
			named := x.object != nil && x.object.HeldBy(h.Service)
			if named || s.ledger.holdsOther(r.Addr, h.Service) || x.object != nil && s.ledger.MayJoin(r.Addr, h.Holder) != "" {
				continue
			}
			s.hold(r.Addr, r.Pool, h.Holder)
			s.retry(0, h.Service)
			r.Holders = append(r.Holders, h)
		}
		switch {
		case len(r.Holders) > 0:
			missing = append(missing, r)
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
