package ipam

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// Every kube-proxy serves what a status shows until the Service is gone, whatever its
// deletion timestamp says. Of two Services that show one address, each machine picks one.
// So an address is released only once its Service's status does not show it any more, and
// one without a holder is not given while any status shows it: a stale status was left by an
// older version, written by another program, or never cleared since the controller
// manager was down.

// Unheld returns those of the addresses that lie in pools and that a Service does not hold.
func (l *Ledger) Unheld(k lb.ServiceKey, shown []netip.Addr) (all []netip.Addr) {
	for _, a := range shown {
		if l.poolOf(a) != nil && !l.IsHolder(a, k) {
			all = append(all, a)
		}
	}
	return all
}

// ObserveShown notes the addresses that the status of a Service shows: one that it does not hold is kept from
// others once it has no other holder, and the Service is reconciled.
func (s *State) ObserveShown(k lb.ServiceKey, shown []netip.Addr) Effects {
	s.noteShown(k, shown)
	return s.out.take()
}

func (s *State) noteShown(key lb.ServiceKey, shown []netip.Addr) {
	for _, addr := range s.Unheld(key, shown) {
		if slices.Contains(s.addresses.of(addr).shownBy, key) {
			continue
		}
		s.addresses.learn(addr, func(x *addressRecord) { x.shownBy = append(slices.Clone(x.shownBy), key) })
		s.services.learn(key, func(x *serviceRecord) { x.shows = append(x.shows, addr) })
		s.blockShown(addr)
		s.out.Stale = append(s.out.Stale, Stale{key, addr})
		s.out.retry(0, key)
	}
}

// Shows returns the addresses that are kept from others since the status of a Service shows them.
func (all services) Shows(k lb.ServiceKey) []netip.Addr {
	if x := all[k]; x != nil {
		return x.shows
	}
	return nil
}

// ObserveCleared notes the addresses that the status of a Service shows, read live: others may have those that it
// shows no more.
func (s *State) ObserveCleared(k lb.ServiceKey, shown []netip.Addr, now time.Time) Effects {
	for _, a := range minus(s.Shows(k), shown...) {
		s.services.learn(k, func(x *serviceRecord) { x.shows = minus(x.shows, a) })
		s.addresses.learn(a, func(x *addressRecord) { x.shownBy = minus(x.shownBy, k) })
		s.unblock(a, now)
	}
	return s.out.take()
}

// ShowsAlone returns the addresses of [State.Shows] that no Service holds.
func (s *State) ShowsAlone(k lb.ServiceKey) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.Shows(k)), func(a netip.Addr) bool {
		c, _ := s.Holding(a)
		return len(c.Holders) > 0 || s.Pool(a) == ""
	})
}

// ReconcileShown has all Services reconciled whose statuses show addresses that they do not hold.
func (s *State) ReconcileShown() Effects {
	for k, x := range s.services {
		if len(x.shows) > 0 {
			s.out.retry(0, k)
		}
	}
	return s.out.take()
}

// blockShown keeps an address that a status shows from all Services, unless one holds it,
// and reports whether it does. The Services that show it report that it is blocked.
func (s *State) blockShown(a netip.Addr) bool {
	by := s.addresses.of(a).shownBy
	if c, _ := s.Holding(a); len(by) == 0 || len(c.Holders) > 0 {
		return false
	}
	s.ledger.Block(a)
	for _, k := range by {
		s.out.retry(0, k)
	}
	return true
}

// unblock frees an address that another program had, or a status showed,
// unless the other of the two still does.
func (s *State) unblock(a netip.Addr, now time.Time) {
	if x := s.addresses.of(a); x.foreign || len(x.shownBy) > 0 {
		return
	}
	s.ledger.Unblock(a)
	s.offerFreed(a, now)
}

// explainShown adds the reason to the denial of each address that is denied since a status shows it.
// The name of a Service of another namespace is not disclosed.
func (s *State) explainShown(key lb.ServiceKey, denials []Denial) {
	for index, d := range denials {
		x := s.addresses.of(d.Address)
		by := minus(x.shownBy, key)
		if c, _ := s.Holding(d.Address); d.Reason != lb.AddressInUse || x.foreign || len(c.Holders) > 0 || len(by) == 0 {
			continue
		}
		who := "a Service of another namespace"
		if j := slices.IndexFunc(by, func(o lb.ServiceKey) bool { return o.Namespace == key.Namespace }); j >= 0 {
			who = "Service " + by[j].String()
		}
		denials[index].Detail = "the status of " + who + " shows it; it is free once that is cleared"
	}
}
