package lb

import (
	"cmp"
	"math"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

const (
	// perEndpoint is the link bandwidth that one local endpoint stands for, in bytes a
	// second: 1 Mbit/s. Only the proportion between machines means anything.
	perEndpoint = 125_000
	// drainPref and drainPrepend make a route that is about to go the worse one with
	// routers, too, that do not know the GRACEFUL_SHUTDOWN community by themselves.
	drainPref    = 1
	drainPrepend = 1
)

// Advertise decides what a machine says over each of its sessions: the VIPs that it
// can serve, and its pod CIDRs. For every VIP that it does not announce to a router
// there is a refusal that says why. Equal views give equal plans, in whatever order
// the offers come.
func Advertise(v View) Plan {
	p := &planner{view: v, scopes: make([]*scope, len(v.Inventory.Pools)), machine: v.machineRefusal()}
	p.rack, _ = v.Inventory.Rack(v.Machine.Rack)
	for _, s := range v.Inventory.Sessions(v.Machine) {
		p.sessions = append(p.sessions, SessionPlan{Session: s})
	}
	p.pods()
	for i := range v.Offers {
		p.offer(&v.Offers[i])
	}
	return p.plan()
}

// machineRefusal is why the machine announces nothing at all; empty: it does.
func (v View) machineRefusal() Reason {
	switch {
	case v.Withdrawn:
		return MachineDrained
	case v.Machine.State == inventory.StateActive:
		return ""
	case v.Draining && v.Machine.State != inventory.StatePlanned:
		return ""
	}
	return MachineNotActive
}

// proxyRefusal is why the machine announces no VIP; empty: it does.
func (v View) proxyRefusal() Reason {
	switch {
	case v.Excluded:
		return NodeExcluded
	case !v.ProxyHealthy:
		return ProxyUnhealthy
	}
	return ""
}

// refusal is why an offer's VIPs are not served here; empty: they are.
func (o *Offer) refusal() Reason {
	switch {
	case o.Endpoints.Any == 0:
		return NoEndpoint
	case o.LocalTraffic && o.Endpoints.Local == 0:
		return NoLocalEndpoint
	}
	return ""
}

// planner gathers one plan.
type planner struct {
	view     View
	machine  Reason
	rack     inventory.Rack
	sessions []SessionPlan
	refusals []Refusal
	scopes   []*scope // by place of the pool; nil: not looked at yet
}

// scope is where and how the VIPs of one pool are announced from this machine.
type scope struct {
	pool    *inventory.Pool
	refusal Reason // here, to anybody
	routers []Reason
	as      []Advertisement // one for each session, without prefix and bandwidth
}

func (p *planner) offer(o *Offer) {
	reason := cmp.Or(p.machine, p.view.proxyRefusal(), o.refusal())
	for _, vip := range o.VIPs {
		if reason != "" {
			p.refuse(Refusal{Service: o.Service, VIP: vip, Reason: reason})
			continue
		}
		p.vip(o, vip)
	}
}

// vip announces one address over every session that may have it.
func (p *planner) vip(o *Offer, vip netip.Addr) {
	sc := p.scopeOf(vip)
	switch {
	case sc == nil:
		p.refuse(Refusal{Service: o.Service, VIP: vip, Reason: VIPOutsidePools})
		return
	case sc.refusal != "":
		p.refuse(Refusal{Service: o.Service, VIP: vip, Reason: sc.refusal})
		return
	}
	prefix, bandwidth := aggregate(sc.pool, vip), weight(sc.pool, o)
	for i := range p.sessions {
		s := &p.sessions[i]
		switch reason := p.sessionRefusal(sc, i, prefix); {
		case reason != "":
			p.refuse(Refusal{Service: o.Service, VIP: vip, Router: s.Session.Router, Reason: reason})
		case s.Session.Families.Has(prefix):
			ad := sc.as[i]
			ad.Prefix, ad.Bandwidth = prefix, bandwidth
			if s.Advertisements == nil {
				s.Advertisements = make([]Advertisement, 0, len(p.view.Offers))
			}
			s.Advertisements = append(s.Advertisements, ad)
		}
	}
}

// scopeOf returns the scope of the pool whose ranges hold the address, be it excluded
// or not: an address that was given before somebody excluded it stays announced.
// nil: there is none.
func (p *planner) scopeOf(vip netip.Addr) *scope {
	pools := p.view.Inventory.Pools
	for i := range pools {
		for j := range pools[i].Ranges {
			if pools[i].Ranges[j].Contains(vip) {
				return p.scope(i)
			}
		}
	}
	return nil
}

// sessionRefusal is why a router does not hear of a prefix. A session that lacks
// the family is no reason where another one with the same router has it.
func (p *planner) sessionRefusal(sc *scope, i int, prefix netip.Prefix) Reason {
	if sc.routers[i] != "" {
		return sc.routers[i]
	}
	router := p.sessions[i].Session.Router
	for j := range p.sessions {
		if s := &p.sessions[j].Session; s.Router == router && s.Families.Has(prefix) {
			return ""
		}
	}
	return SessionLacksFamily
}

// scope works out what holds for all VIPs of a pool, once.
func (p *planner) scope(at int) *scope {
	if sc := p.scopes[at]; sc != nil {
		return sc
	}
	pool := &p.view.Inventory.Pools[at]
	sc := &scope{pool: pool, refusal: p.poolRefusal(pool)}
	for _, s := range p.sessions {
		sc.as = append(sc.as, p.attributes(s.Session, pool.Advertise))
		var reason Reason
		if only := pool.Advertise.Routers; len(only) > 0 && !slices.Contains(only, s.Session.Router) {
			reason = PoolLimitedToRouters
		}
		sc.routers = append(sc.routers, reason)
	}
	p.scopes[at] = sc
	return sc
}

// poolRefusal is why no VIP of a pool is announced from this machine. Where the pool
// names racks and zones, both have to fit.
func (p *planner) poolRefusal(pool *inventory.Pool) Reason {
	a := pool.Advertise
	switch {
	case pool.State == inventory.PoolDisabled:
		return PoolIsDisabled
	case len(a.Racks) > 0 && !slices.Contains(a.Racks, p.rack.Name):
		return PoolLimitedToRacks
	case len(a.Zones) > 0 && !slices.Contains(a.Zones, p.rack.Zone):
		return PoolLimitedToZones
	case len(p.sessions) == 0:
		return NoSession
	}
	return ""
}

// attributes are what a pool's routes are told with over a session.
func (p *planner) attributes(s inventory.Session, a inventory.Advertise) Advertisement {
	ad := Advertisement{Communities: a.Communities}
	if s.IBGP() {
		ad.LocalPref = a.LocalPref
	} else {
		ad.Prepend = a.Prepend
	}
	if p.view.Draining {
		ad.Communities = ad.Communities.With(inventory.GracefulShutdown)
		if s.IBGP() {
			ad.LocalPref = drainPref
		} else {
			ad.Prepend = saturate(ad.Prepend, drainPrepend)
		}
	}
	return ad
}

func saturate(a, b uint8) uint8 { return uint8(min(int(a)+int(b), math.MaxUint8)) }

// aggregate is what a VIP is announced as: the prefix of the pool's length around
// it, or the address alone where that would reach beyond what the pool owns.
func aggregate(pool *inventory.Pool, vip netip.Addr) netip.Prefix {
	alone := netip.PrefixFrom(vip, vip.BitLen())
	length := pool.Advertise.Aggregate.For(vip)
	if length <= 0 || length >= vip.BitLen() {
		return alone
	}
	wide := netip.PrefixFrom(vip, length).Masked()
	around := inventory.RangeOf(wide)
	for _, r := range pool.Ranges {
		if r.Contains(around.First) && r.Contains(around.Last) {
			return wide
		}
	}
	return alone
}

// weight is the bandwidth that stands for a machine's share of an offer.
func weight(pool *inventory.Pool, o *Offer) uint32 {
	if !pool.Advertise.Weighted || !o.LocalTraffic {
		return 0
	}
	return uint32(min(uint64(o.Endpoints.Local)*perEndpoint, math.MaxUint32))
}

// pods announces the pod CIDRs of the Node where a session wants them.
func (p *planner) pods() {
	for _, cidr := range p.view.PodCIDRs {
		if reason := cmp.Or(p.machine, p.cidrRefusal(cidr)); reason != "" {
			p.refuse(Refusal{PodCIDR: cidr, Reason: reason})
			continue
		}
		for i := range p.sessions {
			if s := p.sessions[i].Session; s.PodCIDRs && s.Families.Has(cidr) {
				ad := p.attributes(s, inventory.Advertise{})
				ad.Prefix = cidr
				p.sessions[i].Advertisements = append(p.sessions[i].Advertisements, ad)
			}
		}
	}
}

// cidrRefusal keeps a Node from announcing what is not the pods': its pod CIDRs come
// from the API, not from the inventory. Where a CNI gives them out, the inventory
// knows no pod network, and they are taken as they are.
func (p *planner) cidrRefusal(cidr netip.Prefix) Reason {
	declared := p.view.Inventory.PodNetwork.CIDRs
	declared = append(slices.Clone(declared), p.view.Machine.PodCIDRs...)
	inside := func(outer netip.Prefix) bool { return outer.Bits() <= cidr.Bits() && outer.Contains(cidr.Addr()) }
	if len(declared) == 0 || slices.ContainsFunc(declared, inside) {
		return ""
	}
	return PodCIDROutsideNetwork
}

func (p *planner) refuse(r Refusal) { p.refusals = append(p.refusals, r) }

// plan sorts what was gathered, and says nothing twice.
func (p *planner) plan() Plan {
	for i := range p.sessions {
		p.sessions[i].Advertisements = merge(p.sessions[i].Advertisements)
	}
	slices.SortFunc(p.refusals, Refusal.Compare)
	return Plan{Sessions: p.sessions, Refusals: slices.Compact(p.refusals)}
}

// merge sorts advertisements by prefix. Of several to one prefix, VIPs that share
// an aggregate or Services that share a VIP, the one with the most bandwidth stays.
func merge(ads []Advertisement) []Advertisement {
	slices.SortFunc(ads, func(a, b Advertisement) int {
		if c := ComparePrefixes(a.Prefix, b.Prefix); c != 0 {
			return c
		}
		return cmp.Compare(b.Bandwidth, a.Bandwidth)
	})
	return slices.CompactFunc(ads, func(a, b Advertisement) bool { return a.Prefix == b.Prefix })
}

// ComparePrefixes is netip's order of prefixes, which is worked out much sooner where
// both are of one length, as VIPs are.
func ComparePrefixes(a, b netip.Prefix) int {
	if a.Bits() == b.Bits() && a.Addr().BitLen() == b.Addr().BitLen() {
		return a.Addr().Compare(b.Addr())
	}
	return a.Compare(b)
}

// Compare sorts by Service, VIP, pod CIDR, router and reason.
func (r Refusal) Compare(o Refusal) int {
	return cmp.Or(
		cmp.Compare(r.Service.Namespace, o.Service.Namespace), cmp.Compare(r.Service.Name, o.Service.Name),
		r.VIP.Compare(o.VIP), r.PodCIDR.Addr().Compare(o.PodCIDR.Addr()), cmp.Compare(r.PodCIDR.Bits(), o.PodCIDR.Bits()),
		cmp.Compare(r.Router, o.Router), cmp.Compare(r.Reason, o.Reason),
	)
}
