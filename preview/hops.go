package preview

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// HopChange is the change of a router's next hops for some VIPs, or of their weights.
type HopChange struct {
	Router  string
	VIPs    []netip.Addr // sorted
	Was, Is Hops
}

// OnLink reports whether it is machines of a link that change, and not next hops of a router.
func (c HopChange) OnLink() bool { return strings.HasPrefix(c.Router, linkPrefix) }

// Hops are the next hops that a router has for a VIP: of those that announce the longest prefix to it, without the
// worse ones where there are others. Where they are announced with unequal attributes, which of them
// it takes is for its own rules.
type Hops []Hop

// Hop is one next hop.
type Hop struct {
	Machine string
	Percent int // of the traffic, rounded, of a router that weighs by link bandwidth unless [inventory.WeighsEqually] has its os
}

// Weighted reports whether some get more than others.
func (h Hops) Weighted() bool {
	return slices.ContainsFunc(h, func(hop Hop) bool { return hop.Percent != h[0].Percent })
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

// hopsOf are the next hops by router: of those that announce the longest prefix, those that are not the worse way, if there are any.
func hopsOf(v VIP) map[string]Hops {
	byRouter, best := map[string][]Announcement{}, map[string]Announcement{}
	for _, a := range v.By {
		byRouter[a.Router] = append(byRouter[a.Router], a)
		if b, known := best[a.Router]; !known || a.Hop.Compare(b.Hop) < 0 {
			best[a.Router] = a
		}
	}
	out := map[string]Hops{}
	for router, all := range byRouter {
		out[router] = hopsAmong(slices.DeleteFunc(all, func(a Announcement) bool {
			return a.Bits < best[router].Bits || a.Worse != best[router].Worse
		}))
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

// Hops are the changes of next hops, sorted by router: of VIPs that are not lost, at routers that have
// not failed. VIPs that change alike are told of together.
func (o Outcome) Hops() (all []HopChange) {
	type lists struct{ was, is *Announcement } // that many VIPs share
	told, at := map[lists][]int{}, map[string]int{}
	for _, change := range o.VIPs {
		if change.Why != "" || len(change.Is.By) == 0 {
			continue
		}
		key := lists{is: &change.Is.By[0]}
		if len(change.Was.By) > 0 {
			key.was = &change.Was.By[0]
		}
		places, known := told[key]
		if !known {
			for _, h := range o.hopChanges(change) {
				text := h.Router + fmt.Sprint(h.Was, "->", h.Is)
				i, known := at[text]
				if !known {
					i, at[text] = len(all), len(all)
					all = append(all, h)
				}
				places = append(places, i)
			}
			told[key] = places
		}
		for _, i := range places {
			all[i].VIPs = append(all[i].VIPs, change.Is.Addr)
		}
	}
	slices.SortStableFunc(all, func(a, b HopChange) int { return cmp.Compare(a.Router, b.Router) })
	return all
}

// hopChanges returns the changes of next hops of one VIP, without the VIP.
func (o Outcome) hopChanges(c VIPChange) (all []HopChange) {
	was, is := hopsOf(c.Was), hopsOf(c.Is)
	routers := maps.Clone(was)
	maps.Copy(routers, is)
	for _, router := range slices.Sorted(maps.Keys(routers)) {
		if !slices.Equal(was[router], is[router]) && !o.failed.Routers[router] {
			all = append(all, HopChange{Router: router, Was: was[router], Is: is[router]})
		}
	}
	return all
}

// OnlyMachine is the one machine that announces it; false: there is none, or there are several.
func (v VIP) OnlyMachine() (string, bool) {
	return only(v.By, func(a Announcement) string { return a.Machine })
}

// OnlyRouter is the one router that it is announced to; false: there is none, or there are
// several.
func (v VIP) OnlyRouter() (string, bool) {
	return only(v.By, func(a Announcement) string { return a.Router })
}

func only(by []Announcement, of func(Announcement) string) (string, bool) {
	if len(by) == 0 || slices.ContainsFunc(by, func(a Announcement) bool { return of(a) != of(by[0]) }) {
		return "", false
	}
	return of(by[0]), true
}

// LeftWithOne are the machine and the router that all traffic of a VIP depends on, and did not
// before; empty: it does not.
func (c VIPChange) LeftWithOne() (machine, router string) {
	if len(c.Is.By) > 0 && c.Is.By[0].OnLink() {
		if len(c.Was.Able) > 1 && len(c.Is.Able) == 1 {
			machine = c.Is.Able[0]
		}
		return machine, ""
	}
	if _, before := c.Was.OnlyMachine(); !before && len(c.Was.By) > 0 {
		machine, _ = c.Is.OnlyMachine()
	}
	if _, before := c.Was.OnlyRouter(); !before && len(c.Was.By) > 0 {
		router, _ = c.Is.OnlyRouter()
	}
	return machine, router
}
