package advertise

import (
	"cmp"
	"net/netip"
	"slices"

	"plinth.dev/plinth/lb"
)

// Reach answers for one machine, VIP by VIP, which routers it tells, by the same rules as a
// [Plan]. It is for those who ask about a whole datacenter, of whose thousands of VIPs most are
// alike.
type Reach struct{ input *input }

// ReachOf returns the reach of the machine of a view. The view's offers do not matter.
func ReachOf(v View) Reach { return Reach{inputOf(v)} }

// Hop is the announcement of a VIP by a machine to a router, which may take the machine for a next hop then.
type Hop struct {
	Router string
	Weight uint32 // link bandwidth in bytes a second; 0: not sent
	Worse  bool   // as the worse way: its endpoints terminate
	Bits   int    // of the prefix: a router goes by the longest
	Order  int    // of the advertisement among those of the pool
}

// Compare puts first, of what one machine tells one router of a VIP, also of several Services that share it, what the router goes by.
func (h Hop) Compare(o Hop) int {
	worse := func(h Hop) int {
		if h.Worse {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(o.Bits, h.Bits), cmp.Compare(worse(h), worse(o)), cmp.Compare(h.Order, o.Order), cmp.Compare(o.Weight, h.Weight))
}

// Of returns how the machine announces an offer's VIP, sorted by router, and the reasons why it does
// not: to a router, or to any where none is named. pool is the place of the VIP's pool among
// those of the inventory, which is the same for every machine; less than 0: no pool has it.
func (r Reach) Of(o Offer, pool int) (hops []Hop, refused []Refusal) {
	scope := outside
	if pool >= 0 {
		scope = r.input.pools[pool]
	}
	candidates, refused := r.input.judgeOne(&o, scope, nil, nil)
	for i, s := range r.input.sessions {
		for _, c := range candidates {
			if r.input.announces(i, c) {
				hops = appendHop(hops, Hop{s.Router, c.bandwidth, c.demotion != "", c.prefix.Bits(), c.order})
			}
		}
	}
	return hops, refused
}

// appendHop appends a hop, or puts it in the place of the last one, if that is to the same router and counts less: sessions are
// sorted by router.
func appendHop(hops []Hop, h Hop) []Hop {
	if n := len(hops); n > 0 && hops[n-1].Router == h.Router {
		if h.Compare(hops[n-1]) < 0 {
			hops[n-1] = h
		}
		return hops
	}
	return append(hops, h)
}

// OfPods returns the routers that the machine announces a pod CIDR of its view to, sorted, and
// where there is none the reason.
func (r Reach) OfPods(cidr netip.Prefix) (routers []string, refused lb.Reason) {
	candidates, no := r.input.pods()
	for i, s := range r.input.sessions {
		for _, c := range candidates {
			if c.prefix == cidr && r.input.announces(i, c) && !slices.Contains(routers, s.Router) {
				routers = append(routers, s.Router)
			}
		}
	}
	for _, n := range no {
		if n.PodCIDR == cidr {
			return nil, n.Reason
		}
	}
	if len(routers) == 0 {
		refused = cmp.Or(r.input.noSession(), lb.SessionLacksFamily)
	}
	return routers, refused
}

// Spread holds the numbers of endpoints of a Service, of one family, by machine.
type Spread struct {
	Ready  map[string]int // by the name of the Node
	Ending map[string]int // that serve while they terminate
	// NotFollowed: others could take traffic, and the Service's proxy does not follow their EndpointSlices.
	NotFollowed bool
}

// At counts them as [Count] does on a machine.
func (s Spread) At(machine string) Endpoints {
	if ready := s.Ready[machine]; ready > 0 {
		return Endpoints{Local: ready, Any: sum(s.Ready), Ready: true}
	}
	counts := Endpoints{Local: s.Ending[machine], Any: sum(s.Ready)}
	counts.Terminating = counts.Local > 0 && counts.Any > 0
	if counts.Any == 0 {
		counts.Any = sum(s.Ending)
	}
	counts.NotFollowed = s.NotFollowed && counts.Any == 0
	return counts
}

func sum(all map[string]int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}

// Unserved is the reason of a VIP that no machine can serve; empty: one can.
func (s Spread) Unserved() lb.Reason {
	return refusalOf(&Offer{Endpoints: s.At("")})
}
