package advertise

import (
	"cmp"
	"math"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

const (
	// perEndpoint is the link bandwidth that one local endpoint stands for, in bytes a
	// second: 1 Mbit/s. Only the proportion between machines means anything.
	perEndpoint = 125_000
	// drainPref and drainPrepend make a route that is about to go, or is the worse way for
	// another reason, the worse one with routers, too, that do not know the GRACEFUL_SHUTDOWN community by themselves.
	drainPref    = 1
	drainPrepend = 1
)

// PlanOf decides what a machine announces over each of its sessions: the VIPs that it
// can serve, and its pod CIDRs. For every VIP that it does not announce to a router
// there is a refusal that says why. Equal views give equal plans.
func PlanOf(v View) Plan { return new(Planner).Plan(v) }

// machineRefusal is why the machine announces nothing at all; empty: it does.
func (v View) machineRefusal() lb.Reason {
	switch {
	case v.Withdrawn:
		return lb.MachineDrained
	case v.Machine.State == inventory.StateActive:
		return ""
	case v.Draining && v.Machine.State == inventory.StateMaintenance:
		return "" // it was active until now
	}
	return lb.MachineNotActive
}

// proxyRefusal is why the machine announces no VIP; empty: it does.
func (v View) proxyRefusal() lb.Reason {
	switch {
	case v.Excluded:
		return lb.NodeExcluded
	case !v.ProxyHealthy:
		return lb.ProxyUnhealthy
	}
	return ""
}

// refusal is why an offer's VIPs are not served here; empty: they are.
func refusalOf(o *Offer) lb.Reason {
	switch {
	case o.Endpoints.Any == 0:
		return lb.NoEndpoint
	case o.LocalTraffic && o.Endpoints.Local == 0:
		return lb.NoLocalEndpoint
	}
	return ""
}

// pendingOf is why an offer that could be served is not announced yet; empty: it is.
func pendingOf(o *Offer) lb.Reason {
	if o.RulesPending {
		return lb.ProxyRulesPending
	}
	return ""
}

// demotion is why an offer's VIPs are announced as the worse way; empty: they are not. A
// machine whose endpoints all terminate serves on until they have ended, and routers that
// know a machine with ready ones send new connections there: so somebody announces exactly
// while somebody can serve.
func demotionOf(o *Offer) lb.Reason {
	if o.LocalTraffic && o.Endpoints.Terminating {
		return lb.LocalEndpointsTerminating
	}
	return ""
}

// ground is what a machine's offers are judged by: all of a view besides them.
type ground struct {
	view     View // without offers
	rack     inventory.Rack
	refusal  lb.Reason // of every VIP; empty: there is none
	sessions []inventory.Session
	scopes   []*scope // of each pool, in the inventory's order
}

// scope is where and how the VIPs of one pool, or the machine's pod CIDRs, are
// announced.
type scope struct {
	pool        *inventory.Pool // nil: pod CIDRs
	refusal     lb.Reason       // here, to anybody
	announcedTo []bool          // each session
	attributes  []Advertisement // for each session, without prefix and bandwidth
	worse       []Advertisement // the same, as the worse way
}

// candidate is a VIP or a pod CIDR that wants a prefix announced. Several can want the
// same: VIPs that share an aggregate, Services that share a VIP.
type candidate struct {
	prefix    netip.Prefix
	demotion  lb.Reason // why it is announced as the worse way; empty: it is not
	bandwidth uint32
	vip       netip.Addr // invalid: a pod CIDR
	service   lb.ServiceKey
	scope     *scope
}

// Compare sorts by prefix, and puts first whose attributes the prefix has: it is no worse
// way while one of its Services needs none.
func (c candidate) Compare(d candidate) int {
	if order := comparePrefixes(c.prefix, d.prefix); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(c.demotion, d.demotion), cmp.Compare(d.bandwidth, c.bandwidth), c.vip.Compare(d.vip), c.service.Compare(d.service))
}

func groundOf(v View) *ground {
	g := &ground{view: v, sessions: v.Inventory.Sessions(v.Machine), refusal: cmp.Or(v.machineRefusal(), v.proxyRefusal())}
	g.rack, _ = v.Inventory.Rack(v.Machine.Rack)
	for i := range v.Inventory.Pools {
		g.scopes = append(g.scopes, g.poolScope(&v.Inventory.Pools[i]))
	}
	return g
}

// judge says what some offers want announced, and what is refused to them.
//
// A VIP with local traffic is announced by itself beside its aggregate: machines
// without an endpoint of it may announce the aggregate for other VIPs, and with the
// longer prefix a router sends nothing of this one there. The aggregate stays, for
// routers and networks that do not let the longer prefix in.
func (g *ground) judge(offers []Offer) (candidates []candidate, refused []Refusal) {
	for i := range offers {
		o := &offers[i]
		no := Refusal{Service: o.Service, VIP: o.VIP}
		sc := g.scopeOf(o.VIP)
		if no.Reason = cmp.Or(g.refusal, refusalOf(o), sc.refusal, pendingOf(o)); no.Reason != "" {
			refused = append(refused, no)
			continue
		}
		c := candidate{prefix: aggregate(sc.pool, o.VIP), demotion: demotionOf(o), bandwidth: weight(sc.pool, o), vip: o.VIP, service: o.Service, scope: sc}
		candidates = append(candidates, c)
		if alone := hostPrefix(o.VIP); o.LocalTraffic && c.prefix != alone {
			own := c
			own.prefix = alone
			candidates = append(candidates, own)
		}
		for i := range g.sessions {
			if no.Reason = g.sessionRefusal(i, c); no.Reason != "" {
				no.Router = g.sessions[i].Router
				refused = append(refused, no)
			}
		}
	}
	return candidates, refused
}

// outside is the scope of what lies in no pool.
var outside = &scope{refusal: lb.VIPOutsidePools}

// scopeOf returns the scope of the pool whose ranges hold the address, be it excluded
// or not: an address that was given before somebody excluded it stays announced.
func (g *ground) scopeOf(vip netip.Addr) *scope {
	for _, sc := range g.scopes {
		if sc.pool.Covers(vip) {
			return sc
		}
	}
	return outside
}

// sessionRefusal is why a VIP's prefix is not announced to a router. A session that lacks
// the family is no reason where another one with the same router has it.
func (g *ground) sessionRefusal(i int, c candidate) lb.Reason {
	if !c.scope.announcedTo[i] {
		return lb.PoolLimitedToRouters
	}
	for j := range g.sessions {
		if s := &g.sessions[j]; s.Router == g.sessions[i].Router && s.Families.Has(c.prefix) {
			return ""
		}
	}
	return lb.SessionLacksFamily
}

// advertisement is what a session announces for a candidate; false: nothing.
func (g *ground) advertisement(i int, c candidate) (Advertisement, bool) {
	ad := c.scope.attributes[i]
	if c.demotion != "" {
		ad = c.scope.worse[i]
	}
	ad.Prefix, ad.Bandwidth = c.prefix, c.bandwidth
	return ad, c.scope.announcedTo[i] && g.sessions[i].Families.Has(c.prefix)
}

// poolScope works out what holds for all VIPs of a pool.
func (g *ground) poolScope(pool *inventory.Pool) *scope {
	sc := &scope{pool: pool, refusal: g.poolRefusal(pool)}
	for _, s := range g.sessions {
		only := pool.Advertise.Routers
		sc.announcedTo = append(sc.announcedTo, len(only) == 0 || slices.Contains(only, s.Router))
		sc.attributes = append(sc.attributes, attributes(s, pool.Advertise, g.view.Draining))
		sc.worse = append(sc.worse, attributes(s, pool.Advertise, true))
	}
	return sc
}

// poolRefusal is why no VIP of a pool is announced from this machine. Where the pool
// names racks and zones, both have to fit.
func (g *ground) poolRefusal(pool *inventory.Pool) lb.Reason {
	a := pool.Advertise
	switch {
	case pool.State == inventory.PoolDisabled:
		return lb.PoolIsDisabled
	case len(a.Racks) > 0 && !slices.Contains(a.Racks, g.rack.Name):
		return lb.PoolLimitedToRacks
	case len(a.Zones) > 0 && !slices.Contains(a.Zones, g.rack.Zone):
		return lb.PoolLimitedToZones
	case len(g.sessions) == 0:
		return lb.NoSession
	}
	return ""
}

// attributes are what a pool's routes are announced with over a session, as the worse way
// or not.
func attributes(s inventory.Session, a inventory.Advertise, worse bool) Advertisement {
	ad := Advertisement{Communities: a.Communities}
	if s.IBGP() {
		ad.LocalPref = a.LocalPref
	} else {
		ad.Prepend = a.Prepend
	}
	if worse {
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
	alone := hostPrefix(vip)
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

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// weight is the bandwidth that stands for a machine's share of an offer.
func weight(pool *inventory.Pool, o *Offer) uint32 {
	if !pool.Advertise.Weighted || !o.LocalTraffic {
		return 0
	}
	return uint32(min(uint64(o.Endpoints.Local)*perEndpoint, math.MaxUint32))
}

// pods says which pod CIDRs of the Node are to be announced, and which are refused.
func (g *ground) pods() (candidates []candidate, refused []Refusal) {
	sc := &scope{}
	for _, s := range g.sessions {
		sc.announcedTo = append(sc.announcedTo, s.PodCIDRs)
		sc.attributes = append(sc.attributes, attributes(s, inventory.Advertise{}, g.view.Draining))
	}
	for _, cidr := range g.view.PodCIDRs {
		if reason := cmp.Or(g.view.machineRefusal(), g.cidrRefusal(cidr)); reason != "" {
			refused = append(refused, Refusal{PodCIDR: cidr, Reason: reason})
			continue
		}
		candidates = append(candidates, candidate{prefix: cidr, scope: sc})
	}
	return candidates, refused
}

// cidrRefusal keeps a Node from announcing what is not the pods': its pod CIDRs come
// from the API, not from the inventory. Where a CNI gives them out, the inventory
// knows no pod network, and they are taken as they are.
func (g *ground) cidrRefusal(cidr netip.Prefix) lb.Reason {
	declared := g.view.Inventory.PodNetwork.CIDRs
	declared = append(slices.Clone(declared), g.view.Machine.PodCIDRs...)
	inside := func(outer netip.Prefix) bool { return inventory.Covers(outer, cidr) }
	if len(declared) == 0 || slices.ContainsFunc(declared, inside) {
		return ""
	}
	return lb.PodCIDROutsideNetwork
}
