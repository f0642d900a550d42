package advertise

import (
	"cmp"
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

// machineRefusal returns the reason why the machine announces nothing at all; empty: it does.
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

// proxyRefusal returns the reason why the machine announces no VIP; empty: it does.
func (v View) proxyRefusal() lb.Reason {
	switch {
	case v.Excluded:
		return lb.NodeExcluded
	case !v.ProxyHealthy:
		return lb.ProxyUnhealthy
	}
	return ""
}

// refusalOf returns the reason why an offer's VIPs are not served here; empty: they are.
func refusalOf(o *Offer) lb.Reason {
	switch {
	case o.Endpoints.Any == 0:
		return noEndpoint(o.Endpoints.NotFollowed)
	case o.LocalTraffic && o.Endpoints.Local == 0:
		return lb.NoLocalEndpoint
	}
	return ""
}

// noEndpoint returns the reason why no machine serves a VIP of whose endpoints none can take traffic, as far as the proxy knows that serves it.
func noEndpoint(notFollowed bool) lb.Reason {
	if notFollowed {
		return lb.EndpointsNotFollowed
	}
	return lb.NoEndpoint
}

// pendingOf returns the reason why an offer that could be served is not announced yet, or not any more, for kube-proxy's rules; empty:
// it is.
func (in *input) pendingOf(o *Offer) lb.Reason {
	switch {
	case !o.RulesPending, o.RulesLost && !in.servedElsewhere(o):
		return ""
	case o.RulesLost:
		return lb.ProxyRulesLost
	}
	return lb.ProxyRulesPending
}

// servedElsewhere reports whether another machine can serve an offer, as far as this one knows: it has an endpoint,
// or serves those of all machines. Of other racks a machine knows the endpoints alone.
func (in *input) servedElsewhere(o *Offer) bool {
	if o.Endpoints.Terminating || o.Endpoints.Any > o.Endpoints.Local {
		return true
	}
	return !o.LocalTraffic && in.others
}

// demotionOf returns the reason why an offer's VIPs are announced as the worse way; empty: they are not. A
// machine whose endpoints all terminate serves on until they have ended, and routers that
// know a machine with ready ones send new connections there: so some machine announces exactly
// while some machine can serve.
func demotionOf(o *Offer) lb.Reason {
	if o.LocalTraffic && o.Endpoints.Terminating {
		return lb.LocalEndpointsTerminating
	}
	return ""
}

// input holds everything that decides on a machine's offers: all of a view besides them.
type input struct {
	view     View // without offers
	rack     inventory.Rack
	refusal  lb.Reason // of every VIP; empty: there is none
	sessions []inventory.Session
	pools    []*poolScope // in the inventory's order
	others   bool         // another machine of the rack is active
}

// candidate is a VIP or a pod CIDR that wants a prefix announced. Several can want the
// same: VIPs that share an aggregate, Services that share a VIP, and advertisements of a pool.
type candidate struct {
	prefix    netip.Prefix
	demotion  lb.Reason // why it is announced as the worse way; empty: it is not
	order     int       // of the advertisement among those of its pool
	bandwidth uint32
	vip       netip.Addr // invalid: a pod CIDR
	service   lb.ServiceKey
	scope     *advertiseScope
}

// Compare sorts by prefix, and puts first whose attributes the prefix has, of those that a
// session announces at all: it is no worse way while one of its Services needs none, and the
// first advertisement of its pool counts.
func (c candidate) Compare(d candidate) int {
	if order := comparePrefixes(c.prefix, d.prefix); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(c.demotion, d.demotion), cmp.Compare(c.order, d.order), cmp.Compare(d.bandwidth, c.bandwidth), c.vip.Compare(d.vip), c.service.Compare(d.service))
}

func inputOf(v View) *input {
	in := &input{view: v, sessions: v.Inventory.Sessions(v.Machine), refusal: cmp.Or(v.machineRefusal(), v.proxyRefusal())}
	in.rack, _ = v.Inventory.Rack(v.Machine.Rack)
	in.others = slices.ContainsFunc(in.rack.Machines, func(m inventory.Machine) bool { return m.Name != v.Machine.Name && m.State == inventory.StateActive })
	for i := range v.Inventory.Pools {
		in.pools = append(in.pools, in.poolScope(&v.Inventory.Pools[i]))
	}
	return in
}

// judge returns the candidates of some offers for announcement, and the refusals of the others.
func (in *input) judge(offers []Offer) (candidates []candidate, refused []Refusal) {
	for i := range offers {
		candidates, refused = in.judgeOne(&offers[i], in.poolOf(offers[i].VIP), candidates, refused)
	}
	return candidates, refused
}

// judgeOne adds what one offer of a pool wants announced, and what is refused to it.
func (in *input) judgeOne(offer *Offer, pool *poolScope, candidates []candidate, refused []Refusal) ([]candidate, []Refusal) {
	if pool.isOnLink(offer.VIP) {
		return candidates, refused // see LinksOf
	}
	no := Refusal{Service: offer.Service, VIP: offer.VIP}
	scopes, limited := pool.scopesFor(offer)
	if no.Reason = cmp.Or(in.refusal, refusalOf(offer), limited, in.noSession(), in.pendingOf(offer)); no.Reason != "" {
		return candidates, append(refused, no)
	}
	for _, sc := range scopes {
		candidates = sc.appendCandidates(candidates, offer)
	}
	for i := range in.sessions {
		if no.Reason = in.sessionRefusal(i, scopes, offer.VIP); no.Reason != "" {
			no.Router = in.sessions[i].Router
			refused = append(refused, no)
		}
	}
	return candidates, refused
}

// noSession returns the reason why a machine without sessions announces nothing.
func (in *input) noSession() lb.Reason {
	if len(in.sessions) == 0 {
		return lb.NoSession
	}
	return ""
}

// sessionRefusal returns the reason why a VIP is not announced to a router. A session that lacks
// the family is no reason where another one with the same router has it.
func (in *input) sessionRefusal(i int, scopes []*advertiseScope, vip netip.Addr) lb.Reason {
	if !slices.ContainsFunc(scopes, func(sc *advertiseScope) bool { return sc.announcedTo[i] }) {
		return lb.PoolLimitedToRouters
	}
	for j := range in.sessions {
		if s := &in.sessions[j]; s.Router == in.sessions[i].Router && s.Families.Has(hostPrefix(vip)) {
			return ""
		}
	}
	return lb.SessionLacksFamily
}

// announces reports whether a session announces a candidate's prefix with its attributes,
// where no other candidate comes first.
func (in *input) announces(i int, c candidate) bool {
	return c.scope.announcedTo[i] && in.sessions[i].Families.Has(c.prefix)
}

// advertisement returns the route that a session announces for a candidate.
func (in *input) advertisement(i int, c candidate) Advertisement {
	ad := c.scope.attributes[i]
	if c.demotion != "" {
		ad = c.scope.worse[i]
	}
	ad.Prefix, ad.Bandwidth = c.prefix, c.bandwidth
	return ad
}

// pods returns the candidates of the Node's pod CIDRs that are to be announced, and the refusals of the others.
func (in *input) pods() (candidates []candidate, refused []Refusal) {
	sc := &advertiseScope{}
	for _, s := range in.sessions {
		sc.announcedTo = append(sc.announcedTo, s.PodCIDRs)
		sc.attributes = append(sc.attributes, attributes(s, inventory.Advertise{}, in.view.Draining))
	}
	for _, cidr := range in.view.PodCIDRs {
		if reason := cmp.Or(in.view.machineRefusal(), in.cidrRefusal(cidr)); reason != "" {
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
func (in *input) cidrRefusal(cidr netip.Prefix) lb.Reason {
	declared := in.view.Inventory.PodNetwork.CIDRs
	declared = append(slices.Clone(declared), in.view.Machine.PodCIDRs...)
	inside := func(outer netip.Prefix) bool { return inventory.Covers(outer, cidr) }
	if len(declared) == 0 || slices.ContainsFunc(declared, inside) {
		return ""
	}
	return lb.PodCIDROutsideNetwork
}
