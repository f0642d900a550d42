package ipam

import (
	"net/netip"
	"slices"
	"sort"

	"plinth.dev/plinth/lb"
)

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
		addr := all[i]
		if !s.lets(addr) {
			i = past(all, s.l.lastAlike(addr))
			continue
		}
		if s.unavailable(addr).Reason == "" {
			s.take(addr)
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
