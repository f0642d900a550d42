package ipam

import (
	"iter"
	"net/netip"
	"plinth.dev/plinth/lb"
	"slices"
	"sort"
)

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

// share looks for an address that a Service with the same sharing key holds. Of the
// ports asked for it picks the one that is taken on the most shared VIPs, and tries only
// VIPs where that one is free.
func (s *search) share(f lb.Family) {
	if s.r.Sharing == "" {
		return
	}
	k := sharing{namespace: s.r.Service.Namespace, key: s.r.Sharing, backends: s.r.Backends, family: f}
	all := s.l.shared[k]
	var taken []netip.Addr
	for _, k.port = range s.r.Ports {
		if t := s.l.shared[k]; len(t) > len(taken) {
			taken = t
		}
	}
	for i := firstNotIn(all, taken); i < len(all); i += firstNotIn(all[i:], taken) {
		a := all[i]
		if !s.open(s.l.poolOf(a)) {
			i = past(all, s.l.lastAlike(a))
			continue
		}
		if s.occupied(a).Reason == "" {
			s.take(a)
			return
		}
		i++
	}
}

// firstNotIn is the place of the first address of all that is not in some; both are sorted.
func firstNotIn(all, some []netip.Addr) int {
	if len(all) == 0 {
		return 0
	}
	from, _ := slices.BinarySearchFunc(some, all[0], netip.Addr.Compare)
	some = some[from:]
	return sort.Search(len(all), func(i int) bool { return i >= len(some) || all[i] != some[i] })
}

// past is the place of the first address of all that comes after a.
func past(all []netip.Addr, a netip.Addr) int {
	return sort.Search(len(all), func(i int) bool { return a.Less(all[i]) })
}
