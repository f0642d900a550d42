package advertise

import (
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// LinkPlan is what a machine does on one link, as far as that does not depend on which machines are
// there at the moment: that is for its [Succession].
type LinkPlan struct {
	Link inventory.Link
	Self netip.Addr // of this machine, on the link
	// Leaving is why others are to own what it could; empty: it owns what it can. That kube-proxy's rules are gone is
	// a reason where those of all its VIPs are: a machine asks it for all or for none.
	Leaving lb.Reason
	Silent  bool      // it answers for nothing, whoever else does
	VIPs    []LinkVIP // sorted
	Offers  []Offer   // of these, sorted
	// Pending are those of these that kube-proxy on this machine may have no rules for yet, sorted. One that
	// several Services share is not, while the rules of any that is served are there.
	Pending []netip.Addr
	// Refusals are of VIPs that nobody answers for, or that are pending.
	Refusals []Refusal
}

// LinksOf plans for all links of a machine, sorted by subnet. Equal views give equal plans.
func LinksOf(v View) []LinkPlan {
	links := v.Inventory.LinksOf(v.Machine.Name)
	if len(links) == 0 {
		return nil
	}
	g := groundOf(v)
	plans := make([]LinkPlan, 0, len(links))
	for _, l := range links {
		plans = append(plans, g.linkPlan(l))
	}
	return plans
}

func (g *ground) linkPlan(l inventory.Link) LinkPlan {
	self, _ := l.Machine(g.view.Machine.Name)
	p := LinkPlan{Link: l, Self: self.Addr, Leaving: g.refusal, Silent: g.view.machineRefusal() != ""}
	if p.Leaving == "" && g.view.Draining {
		p.Leaving = lb.MachineDrained
	}
	var ruled []netip.Addr     // whose rules are there, of some Service, or nobody's to be asked for
	lost, kept := false, false // rules of kube-proxy's
	for o := range g.view.Offers.All() {
		pool := g.poolOf(o.VIP)
		if !l.Subnet.Contains(o.VIP) || !pool.isOnLink(o.VIP) {
			continue
		}
		p.Offers = append(p.Offers, o)
		vip, refusal := linkVIP(l, &o, pool)
		if refusal == "" {
			p.VIPs = addLinkVIP(p.VIPs, vip)
			switch {
			case refusalOf(&o) != "" || p.Leaving != "":
			case o.RulesLost:
				lost = true
			case o.RulesPending:
				p.Pending = append(p.Pending, o.VIP)
				refusal = lb.ProxyRulesPending
			default:
				ruled = append(ruled, o.VIP)
				kept = kept || o.Frontend.Proxy == lb.KubeProxy
			}
		}
		if refusal != "" {
			p.Refusals = append(p.Refusals, Refusal{Service: o.Service, VIP: o.VIP, Reason: refusal})
		}
	}
	if lost && !kept {
		p.Leaving = lb.ProxyRulesLost
	}
	p.Pending = slices.DeleteFunc(slices.Compact(p.Pending), func(vip netip.Addr) bool { return slices.Contains(ruled, vip) })
	return p
}

// linkVIP is an offer's VIP as all machines of the link see it, or why none answers for it.
func linkVIP(l inventory.Link, o *Offer, pool *poolScope) (LinkVIP, lb.Reason) {
	if pool.refusal != "" {
		return LinkVIP{}, pool.refusal
	}
	may, refusal := MachinesFor(pool.pool, l, o.Labels.Map())
	v := LinkVIP{VIP: o.VIP, Homes: list(o.Link.Homes), May: may, Local: o.LocalTraffic, At: list(o.Link.At), Served: o.Endpoints.Any > 0, NotFollowed: o.Endpoints.NotFollowed}
	v.Pinned = o.Link.Home != "" && len(v.Homes) > 0 && v.Homes[0] == o.Link.Home
	return v, refusal
}

func list(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// MachinesFor lists the machines of a link that a pool's advertisements announce a Service's VIPs
// from, sorted; nil: all do. Where none does it says why.
func MachinesFor(pool *inventory.Pool, l inventory.Link, labels map[string]string) (may []string, refusal lb.Reason) {
	refusal = lb.PoolLimitedToServices
	for i := range pool.Advertise {
		a := &pool.Advertise[i]
		if !a.Selector.Matches(labels) {
			continue
		}
		if len(a.Racks) == 0 && len(a.Zones) == 0 {
			return nil, ""
		}
		refusal = lb.PoolLimitedToRacks
		for _, m := range l.Machines {
			inRack := len(a.Racks) == 0 || slices.Contains(a.Racks, m.Rack)
			inZone := len(a.Zones) == 0 || slices.Contains(a.Zones, m.Zone)
			if inRack && inZone && !slices.Contains(may, m.Name) {
				may = append(may, m.Name)
			}
		}
	}
	slices.Sort(may)
	if len(may) > 0 {
		refusal = ""
	}
	return may, refusal
}

// MayOf lists the machines of a link that announce a VIP of a pool which Services with these labels share: those that do for any of
// them, sorted; nil: all do, or none.
func MayOf(pool *inventory.Pool, l inventory.Link, services []map[string]string) (may []string) {
	announced := false
	for _, labels := range services {
		switch of, refused := MachinesFor(pool, l, labels); {
		case refused != "":
		case announced:
			may = eitherMay(may, of)
		default:
			may, announced = of, true
		}
	}
	return may
}

func eitherMay(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// addLinkVIP adds the VIP of another offer. Services that share one are served where any of them is.
func addLinkVIP(all []LinkVIP, v LinkVIP) []LinkVIP {
	n := len(all)
	if n == 0 || all[n-1].VIP != v.VIP {
		return append(all, v)
	}
	same := &all[n-1]
	served := same.Served
	same.Pinned, same.Served = same.Pinned || v.Pinned, same.Served || v.Served
	same.NotFollowed = !same.Served && (same.NotFollowed || v.NotFollowed)
	same.May = eitherMay(same.May, v.May)
	switch {
	case same.Local && v.Local:
		same.At = slices.Compact(slices.Sorted(slices.Values(slices.Concat(same.At, v.At))))
	case !v.Local && v.Served:
		same.Local, same.At = false, nil
	case v.Local && v.Served && !served:
		same.Local, same.At = true, v.At // nothing of the others is to be reached
	}
	return all
}

// Segment is the link as a machine knows it, from what it knows of the others.
func (p LinkPlan) Segment(self string, standing func(name string) Standing, witness Witness) Segment {
	s := Segment{Self: self, Witness: witness, Lingers: p.Leaving == lb.MachineDrained && !p.Silent}
	for _, m := range p.Link.Machines {
		n := Neighbor{Name: m.Name, Active: m.State == inventory.StateActive, Standing: Up}
		switch {
		case m.Name != self:
			n.Standing = standing(m.Name)
		case p.Leaving != "":
			n.Standing = Leaving
		}
		s.Machines = append(s.Machines, n)
	}
	return s
}

// Refused says of each offer of the plan why this machine does not answer for its VIP, sorted.
// owners are sorted.
func (p LinkPlan) Refused(owners []Owned) []Refusal {
	all := slices.Clone(p.Refusals)
	for _, o := range p.Offers {
		i, known := slices.BinarySearchFunc(owners, o.VIP, func(a Owned, vip netip.Addr) int { return a.VIP.Compare(vip) })
		said := slices.ContainsFunc(p.Refusals, func(r Refusal) bool { return r.VIP == o.VIP && r.Service == o.Service })
		if !known || said || owners[i].Reason == "" {
			continue
		}
		r := Refusal{Service: o.Service, VIP: o.VIP, Reason: owners[i].Reason}
		if p.Leaving != "" {
			r.Reason = p.Leaving
		}
		all = append(all, r)
	}
	slices.SortFunc(all, Refusal.Compare)
	return all
}
