package preview

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Simulate returns the previews before and after an edit and failures. Either may be none:
// after is before then, and the failures are empty.
//
// It asks what is announced at this moment: a Service without endpoints has no announcement that
// could be lost, and a machine that is silent does not count. What an edit that is to last
// takes away is [Unreachable].
func Simulate(before, after *inventory.Inventory, cluster Cluster, failed Failures) (was, is *Preview) {
	var others, othersAfter []inventory.Machine
	if cluster.Nodes == nil {
		others, othersAfter = slices.Collect(before.Machines()), slices.Collect(after.Machines())
	} else {
		cluster = cluster.heard()
	}
	identify := after.Identify
	if document.Equal(before, after) {
		identify = after.MachineOf // agents that run go on
	}
	was = of(before, cluster, Failures{}, before.MachineOf, others)
	cluster.Owners = was.ownersNow()
	return was, of(after, cluster, failed, identify, othersAfter)
}

// SilentNodes are the names of those that no word is heard of, sorted.
func (c Cluster) SilentNodes() (names []string) {
	for name, n := range c.Nodes {
		if n.Silent {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// SampleServices stand for Services that are not known: one for each pool and family, that holds
// the first and the last address and can be served by every machine. Its namespace is "pool".
func SampleServices(inv *inventory.Inventory) (all []Service) {
	for _, pool := range inv.Pools {
		service := Service{Key: lb.ServiceKey{Namespace: "pool", Name: pool.Name}, Endpoints: map[lb.Family]advertise.Spread{}}
		ends := map[lb.Family][2]netip.Addr{}
		for _, ipRange := range pool.Ranges {
			f := lb.FamilyOf(ipRange.First)
			first, known := ends[f]
			if !known {
				first[0] = ipRange.First
			}
			ends[f] = [2]netip.Addr{first[0], ipRange.Last}
		}
		for f, e := range ends {
			service.VIPs = append(service.VIPs, e[0])
			if e[1] != e[0] {
				service.VIPs = append(service.VIPs, e[1])
			}
			service.Endpoints[f] = advertise.Spread{Ready: map[string]int{"": 1}}
		}
		slices.SortFunc(service.VIPs, netip.Addr.Compare)
		all = append(all, service)
	}
	return all
}

// Outcome holds the differences between two previews of one cluster.
type Outcome struct {
	VIPs  []VIPChange // sorted by address
	Pods  []PodChange // sorted by racks; those of Racks are not among them
	Racks []string    // in which there were pods, and are none any more, sorted

	failed Failures
}

// VIPChange is a VIP that others announce than before.
type VIPChange struct {
	Was, Is VIP
	Why     string // it is lost; empty: it is not
}

// Shifts reports whether others announce the VIP than before. Where not, one machine of a link is left
// that can answer for it.
func (c VIPChange) Shifts() bool {
	if slices.Equal(c.Was.By, c.Is.By) {
		return false
	}
	same := func(a, b Announcement) bool {
		a.Bits, b.Bits, a.Order, b.Order = 0, 0, 0, 0 // these count where next hops differ for them
		return a == b
	}
	return !slices.EqualFunc(c.Was.By, c.Is.By, same) || !maps.EqualFunc(hopsOf(c.Was), hopsOf(c.Is), slices.Equal[Hops])
}

// PodChange is a path of pods that is another one.
type PodChange struct {
	From, To string // racks
	Was, Is  []Way
}

// Lost reports whether no pod reaches another any more.
func (c PodChange) Lost() bool {
	return PodPath{Ways: c.Was}.Reachable() && !PodPath{Ways: c.Is}.Reachable()
}

// Cut reports whether some pods do not reach others that did.
func (c PodChange) Cut() bool {
	return unreachablePairs(c.Is) > unreachablePairs(c.Was)
}

func unreachablePairs(ways []Way) (pairs int) {
	for _, w := range ways {
		if w.Kind == NoWay {
			pairs += w.Pairs
		}
	}
	return pairs
}

// Lost returns the VIPs that no machine announces any more.
func (o Outcome) Lost() []VIPChange {
	return slices.DeleteFunc(slices.Clone(o.VIPs), func(c VIPChange) bool { return c.Why == "" })
}

// Loses reports whether anything becomes unreachable.
func (o Outcome) Loses() bool {
	return len(o.Lost()) > 0 || len(o.Racks) > 0 || slices.ContainsFunc(o.Pods, PodChange.Cut)
}

// Empty reports whether nothing differs.
func (o Outcome) Empty() bool { return len(o.VIPs)+len(o.Pods)+len(o.Racks) == 0 }

// Compare returns the differences from one preview to another of the same cluster.
func Compare(was, is *Preview) (outcome Outcome) {
	for i, vip := range is.VIPs { // of the same Services, so the same addresses
		before := was.VIPs[i]
		change := VIPChange{Was: before, Is: vip}
		if machine, router := change.LeftWithOne(); !change.Shifts() && machine+router == "" {
			continue
		}
		if change.Shifts() && len(vip.By) == 0 {
			change.Why = is.lossOf(before, vip)
		}
		outcome.VIPs = append(outcome.VIPs, change)
	}
	outcome.failed = is.failed
	outcome.comparePods(was, is)
	return outcome
}

// lossOf returns the reason why no machine announces a VIP any more.
func (p *Preview) lossOf(before, now VIP) string {
	if before.By[0].OnLink() {
		if len(now.Reasons) == 0 {
			return "no machine is left on the " + before.By[0].Router
		}
		return now.why(before)
	}
	machines, routers := true, true
	for _, a := range before.By {
		machines = machines && p.failed.Machines[a.Machine]
		routers = routers && p.failed.Routers[a.Router]
	}
	switch {
	case machines:
		return "every machine that announces it has failed"
	case routers:
		return "every router that it is announced to has failed"
	case !slices.ContainsFunc(before.By, func(a Announcement) bool { return !p.failed.Machines[a.Machine] && !p.failed.Routers[a.Router] }):
		return "every machine that announces it has failed, or each router that it is announced to"
	}
	return now.why(before)
}

func (o *Outcome) comparePods(was, is *Preview) {
	old, now := waysByRacks(was.PodPaths()), waysByRacks(is.PodPaths())
	before, left := was.podRacks(), is.podRacks()
	for _, rack := range slices.Sorted(maps.Keys(before)) {
		if !left[rack] {
			o.Racks = append(o.Racks, rack)
		}
	}
	pairs := maps.Clone(old)
	maps.Copy(pairs, now)
	for pair := range pairs {
		alone := pair[0] == pair[1] && len(now[pair]) == 0 // one machine is left, and has nobody to reach
		if left[pair[0]] && left[pair[1]] && !alone && !sameWays(old[pair], now[pair]) {
			o.Pods = append(o.Pods, PodChange{pair[0], pair[1], old[pair], now[pair]})
		}
	}
	slices.SortFunc(o.Pods, func(a, b PodChange) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
}

func waysByRacks(paths []PodPath) map[[2]string][]Way {
	out := map[[2]string][]Way{}
	for _, p := range paths {
		out[[2]string{p.From, p.To}] = p.Ways
	}
	return out
}

// podRacks are the racks in which there are pods; none, where a CNI routes them.
func (p *Preview) podRacks() map[string]bool {
	out := map[string]bool{}
	if p.inv.PodNetwork.Mode == inventory.ModeNone {
		return out
	}
	for _, m := range p.machines {
		out[m.inv.Rack] = out[m.inv.Rack] || m.hasPods()
	}
	maps.DeleteFunc(out, func(_ string, has bool) bool { return !has })
	return out
}

// sameWays reports whether two paths have the same ways, for however many machines.
func sameWays(a, b []Way) bool {
	return slices.EqualFunc(a, b, func(a, b Way) bool { return a.compare(b) == 0 && (a.Kind != NoWay || a.Pairs == b.Pairs) })
}
