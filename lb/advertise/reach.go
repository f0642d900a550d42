package advertise

import (
	"plinth.dev/plinth/lb"
)

// Reach answers for one machine, VIP by VIP, which routers it tells, by the same rules as a
// [Plan]. It is for those who ask about a whole datacenter, of whose thousands of VIPs most are
// alike.
type Reach struct{ ground *ground }

// ReachOf returns the reach of the machine of a view. The view's offers do not matter.
func ReachOf(v View) Reach { return Reach{groundOf(v)} }

// Of returns the routers that the machine announces an offer's VIP to, sorted, and why it does
// not: to a router, or where none is named to nobody. pool is the place of the VIP's pool among
// those of the inventory, which is the same for every machine; less than 0: no pool has it.
func (r Reach) Of(o Offer, pool int) (routers []string, refused []Refusal) {
	scope := outside
	if pool >= 0 {
		scope = r.ground.pools[pool]
	}
	candidates, refused := r.ground.judgeOne(&o, scope, nil, nil)
	for i, s := range r.ground.sessions {
		for _, c := range candidates {
			if r.ground.announces(i, c) {
				routers = appendNew(routers, s.Router)
			}
		}
	}
	return routers, refused
}

// appendNew appends a name unless it is the last one already: sessions are sorted by router.
func appendNew(names []string, name string) []string {
	if n := len(names); n > 0 && names[n-1] == name {
		return names
	}
	return append(names, name)
}

// Spread is how many endpoints of a Service, of one family, each machine has.
type Spread struct {
	Ready  map[string]int // by the name of the Node
	Ending map[string]int // that serve while they terminate
}

// At counts them as [Count] does on a machine.
func (s Spread) At(machine string) Endpoints {
	if ready := s.Ready[machine]; ready > 0 {
		return Endpoints{Local: ready, Any: sum(s.Ready), Ready: true}
	}
	n := Endpoints{Local: s.Ending[machine], Any: sum(s.Ready)}
	n.Terminating = n.Local > 0 && n.Any > 0
	if n.Any == 0 {
		n.Any = sum(s.Ending)
	}
	return n
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
