package preview

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// HopChange is that a router has other next hops for some VIPs, or weighs them in another way.
type HopChange struct {
	Router  string
	VIPs    []netip.Addr // sorted
	Was, Is Hops
}

// Hops are the next hops that a router has for a VIP: those that announce it to it, without the
// worse ones where there are others. Where they are announced with unequal attributes, which of them
// it takes is for its own rules.
type Hops []Hop

// Hop is one next hop.
type Hop struct {
	Machine string
	Percent int // of the traffic, rounded, of a router that weighs by link bandwidth
}

// Weighted reports whether some get more than others.
func (h Hops) Weighted() bool {
	for _, hop := range h {
		if hop.Percent != h[0].Percent {
			return true
		}
	}
	return false
}

// String lists the machines, with their parts where these differ.
func (h Hops) String() string {
	var all []string
	for _, hop := range h {
		text := hop.Machine
		if h.Weighted() {
			text += fmt.Sprintf(" %d%%", hop.Percent)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// hopsOf are the next hops by router.
func hopsOf(v VIP) map[string]Hops {
	byRouter := map[string][]Announcement{}
	good := map[string]bool{}
	for _, a := range v.By {
		byRouter[a.Router] = append(byRouter[a.Router], a)
		good[a.Router] = good[a.Router] || !a.Worse
	}
	out := map[string]Hops{}
	for router, all := range byRouter {
		out[router] = hopsAmong(slices.DeleteFunc(all, func(a Announcement) bool { return a.Worse && good[router] }))
	}
	return out
}

// hopsAmong weighs those that announce a VIP to one router. If one of them has no weight, a router
// weighs none.
func hopsAmong(all []Announcement) (hops Hops) {
	total, weighted := 0.0, true
	for _, a := range all {
		total += float64(a.Weight)
		weighted = weighted && a.Weight > 0
	}
	for _, a := range all {
		part := 1 / float64(len(all))
		if weighted {
			part = float64(a.Weight) / total
		}
		hops = append(hops, Hop{a.Machine, int(part*100 + 0.5)})
	}
	return hops
}

// hopChanges puts VIPs together whose next hops change alike.
func (p *Preview) hopChanges(vips []VIPChange) (all []HopChange) {
	at := map[string]int{}
	for _, c := range vips {
		if c.Why != "" {
			continue
		}
		was, is := hopsOf(c.Was), hopsOf(c.Is)
		routers := maps.Clone(was)
		maps.Copy(routers, is)
		for _, router := range slices.Sorted(maps.Keys(routers)) {
			if slices.Equal(was[router], is[router]) || p.failed.Routers[router] {
				continue
			}
			key := fmt.Sprint(router, was[router], is[router])
			i, known := at[key]
			if !known {
				i, at[key] = len(all), len(all)
				all = append(all, HopChange{Router: router, Was: was[router], Is: is[router]})
			}
			all[i].VIPs = append(all[i].VIPs, c.Is.Addr)
		}
	}
	slices.SortStableFunc(all, func(a, b HopChange) int { return cmp.Compare(a.Router, b.Router) })
	return all
}
