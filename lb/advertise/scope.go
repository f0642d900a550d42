package advertise

import (
	"math"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// poolScope holds the sessions and attributes with which the VIPs of one pool are announced.
type poolScope struct {
	pool    *inventory.Pool
	refusal lb.Reason         // of all of them, here; empty: there is none
	scopes  []*advertiseScope // of its advertisements, in the inventory's order
	selects bool              // some of these are for some Services

	// What holds for every Service where none are selected.
	all     []*advertiseScope
	limited lb.Reason
}

// advertiseScope holds the sessions and attributes with which VIPs are announced by one advertisement of a pool, or the machine's
// pod CIDRs.
type advertiseScope struct {
	pool        *inventory.Pool      // nil: pod CIDRs
	advertise   *inventory.Advertise // of the pool
	order       int                  // among those of the pool
	refusal     lb.Reason            // here, to any router
	announcedTo []bool               // each session
	attributes  []Advertisement      // for each session, without prefix and bandwidth
	worse       []Advertisement      // the same, as the worse way
}

// outside is the scope of what lies in no pool.
var outside = &poolScope{refusal: lb.VIPOutsidePools}

// poolOf returns the scope of the pool whose ranges hold the address, be it excluded
// or not: an address that was given before it was excluded stays announced.
func (in *input) poolOf(vip netip.Addr) *poolScope {
	for _, p := range in.pools {
		if p.pool.Covers(vip) {
			return p
		}
	}
	return outside
}

// isOnLink reports whether an address of the pool is announced on its own subnet, and so to no
// router.
func (p *poolScope) isOnLink(vip netip.Addr) bool {
	return p.pool != nil && slices.ContainsFunc(p.pool.Links, func(s netip.Prefix) bool { return s.Contains(vip) })
}

// poolScope works out what holds for all VIPs of a pool.
func (in *input) poolScope(pool *inventory.Pool) *poolScope {
	scope := &poolScope{pool: pool, refusal: poolRefusal(pool)}
	for i := range pool.Advertise {
		a := &pool.Advertise[i]
		scope.scopes = append(scope.scopes, in.advertiseScope(pool, a, i))
		scope.selects = scope.selects || !a.Selector.Empty()
	}
	scope.all, scope.limited = scope.fitting(nil)
	return scope
}

// poolRefusal returns the reason why no VIP of a pool is announced; empty: they are.
func poolRefusal(pool *inventory.Pool) lb.Reason {
	if pool.State == inventory.PoolDisabled {
		return lb.PoolIsDisabled
	}
	return ""
}

// advertiseScope works out what holds for all VIPs that one advertisement announces.
func (in *input) advertiseScope(pool *inventory.Pool, advertise *inventory.Advertise, order int) *advertiseScope {
	sc := &advertiseScope{pool: pool, advertise: advertise, order: order, refusal: placeRefusal(advertise, in.rack.Name, in.rack.Zone)}
	if sc.refusal != "" {
		return sc // nothing is announced by it
	}
	for _, s := range in.sessions {
		sc.announcedTo = append(sc.announcedTo, len(advertise.Routers) == 0 || slices.Contains(advertise.Routers, s.Router))
		sc.attributes = append(sc.attributes, attributes(s, *advertise, in.view.Draining))
		sc.worse = append(sc.worse, attributes(s, *advertise, true))
	}
	return sc
}

// placeRefusal returns the reason why nothing is announced from the machines of a rack by an advertisement. Where it
// names racks and zones, both have to fit.
func placeRefusal(a *inventory.Advertise, rack, zone string) lb.Reason {
	switch {
	case len(a.Racks) > 0 && !slices.Contains(a.Racks, rack):
		return lb.PoolLimitedToRacks
	case len(a.Zones) > 0 && !slices.Contains(a.Zones, zone):
		return lb.PoolLimitedToZones
	}
	return ""
}

// scopesFor returns the scopes of the pool's advertisements that announce an offer's VIP from this
// machine, or the reason why none does: that of the one that comes nearest.
func (p *poolScope) scopesFor(offer *Offer) (fit []*advertiseScope, refusal lb.Reason) {
	switch {
	case p.refusal != "":
		return nil, p.refusal
	case !p.selects:
		return p.all, p.limited
	}
	return p.fitting(offer.Labels.Map())
}

// fitting is scopesFor, for a Service with these labels.
func (p *poolScope) fitting(labels map[string]string) (fit []*advertiseScope, refusal lb.Reason) {
	refusal = lb.PoolLimitedToServices
	for _, sc := range p.scopes {
		switch {
		case !sc.advertise.Selector.Matches(labels):
		case sc.refusal == "":
			fit = append(fit, sc)
		case refusal != lb.PoolLimitedToZones:
			refusal = sc.refusal
		}
	}
	if len(fit) > 0 {
		refusal = ""
	}
	return fit, refusal
}

// appendCandidates appends what an offer wants announced by an advertisement.
//
// A VIP with local traffic is announced by itself beside its aggregate: machines
// without an endpoint of it may announce the aggregate for other VIPs, and with the
// longer prefix a router sends nothing of this one there. The aggregate stays, for
// routers and networks that do not let the longer prefix in.
func (sc *advertiseScope) appendCandidates(all []candidate, offer *Offer) []candidate {
	wanted := candidate{
		prefix: sc.aggregate(offer.VIP), demotion: demotionOf(offer), order: sc.order, bandwidth: sc.weight(offer),
		vip: offer.VIP, service: offer.Service, scope: sc,
	}
	all = append(all, wanted)
	if alone := hostPrefix(offer.VIP); offer.LocalTraffic && wanted.prefix != alone {
		wanted.prefix = alone
		all = append(all, wanted)
	}
	return all
}

// attributes returns the BGP attributes of a pool's routes over a session, as the worse way
// or not.
func attributes(session inventory.Session, a inventory.Advertise, worse bool) Advertisement {
	ad := Advertisement{Communities: a.Communities}
	if session.IBGP() {
		ad.LocalPref = a.LocalPref
	} else {
		ad.Prepend = a.Prepend
	}
	if worse {
		ad.Communities = ad.Communities.With(inventory.GracefulShutdown)
		if session.IBGP() {
			ad.LocalPref = drainPref
		} else {
			ad.Prepend = saturate(ad.Prepend, drainPrepend)
		}
	}
	return ad
}

func saturate(a, b uint8) uint8 { return uint8(min(int(a)+int(b), math.MaxUint8)) }

// aggregate returns the prefix that a VIP is announced as: the one of the advertisement's length around
// it, or the address alone where that prefix would reach beyond the pool's addresses.
func (sc *advertiseScope) aggregate(vip netip.Addr) netip.Prefix {
	alone := hostPrefix(vip)
	length := sc.advertise.Aggregate.For(vip)
	if length <= 0 || length >= vip.BitLen() {
		return alone
	}
	wide := netip.PrefixFrom(vip, length).Masked()
	around := inventory.RangeOf(wide)
	for _, r := range sc.pool.Ranges {
		if r.Contains(around.First) && r.Contains(around.Last) {
			return wide
		}
	}
	return alone
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// weight is the bandwidth that stands for a machine's share of an offer.
func (sc *advertiseScope) weight(o *Offer) uint32 {
	if !sc.advertise.Weighted || !o.LocalTraffic {
		return 0
	}
	return uint32(min(uint64(o.Endpoints.Local)*perEndpoint, math.MaxUint32))
}
