package advertise

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// LinkPlan is the plan of a machine on one link, as far as that does not depend on which machines are
// there at the moment: that is for its [Succession].
type LinkPlan struct {
	Link inventory.Link
	Self netip.Addr // of this machine, on the link
	// Leaving is the reason why others are to own the VIPs that it could; empty: it owns all that it can. That kube-proxy's rules are gone is
	// a reason where those of all its VIPs are: a machine asks it for all or for none.
	Leaving lb.Reason
	Silent  bool      // it answers for nothing, whoever else does
	VIPs    []LinkVIP // sorted
	Offers  []Offer   // of these, sorted
	// Pending are the VIPs that kube-proxy on this machine may have no rules for yet, sorted. One that
	// several Services share is not, while the rules of any that is served are there.
	Pending []netip.Addr
	// Refusals are those of VIPs that no machine answers for, or that are pending.
	Refusals []Refusal
}

// LinksOf plans for all links of a machine, sorted by subnet. Equal views give equal plans.
func LinksOf(v View) (plans []LinkPlan) {
	links := v.Inventory.LinksOf(v.Machine.Name)
	if len(links) == 0 {
		return nil
	}
	in := inputOf(v)
	for _, link := range links {
		plans = append(plans, in.linkPlan(link))
	}
	return plans
}

func (in *input) linkPlan(link inventory.Link) LinkPlan {
	self, _ := link.Machine(in.view.Machine.Name)
	plan := LinkPlan{Link: link, Self: self.Addr, Leaving: in.refusal, Silent: in.view.machineRefusal() != ""}
	if plan.Leaving == "" && in.view.Draining {
		plan.Leaving = lb.MachineDrained
	}
	var ruled []netip.Addr     // whose rules are there, of some Service, or nobody's to be asked for
	lost, kept := false, false // rules of kube-proxy's
	for offer := range in.view.Offers.All() {
		pool := in.poolOf(offer.VIP)
		if !link.Subnet.Contains(offer.VIP) || !pool.isOnLink(offer.VIP) {
			continue
		}
		plan.Offers = append(plan.Offers, offer)
		vip, refusal := linkVIP(link, &offer, pool)
		if refusal == "" {
			plan.VIPs = addLinkVIP(plan.VIPs, vip)
			switch {
			case refusalOf(&offer) != "" || plan.Leaving != "":
			case offer.RulesLost:
				lost = true
			case offer.RulesPending:
				plan.Pending = append(plan.Pending, offer.VIP)
				refusal = lb.ProxyRulesPending
			default:
				ruled = append(ruled, offer.VIP)
				kept = kept || offer.Frontend.Proxy == lb.KubeProxy
			}
		}
		if refusal != "" {
			plan.Refusals = append(plan.Refusals, Refusal{Service: offer.Service, VIP: offer.VIP, Reason: refusal})
		}
	}
	if lost && !kept {
		plan.Leaving = lb.ProxyRulesLost
	}
	plan.Pending = slices.DeleteFunc(slices.Compact(plan.Pending), func(vip netip.Addr) bool { return slices.Contains(ruled, vip) })
	return plan
}

// linkVIP is an offer's VIP as all machines of the link see it, or why none answers for it.
func linkVIP(link inventory.Link, offer *Offer, pool *poolScope) (LinkVIP, lb.Reason) {
	if pool.refusal != "" {
		return LinkVIP{}, pool.refusal
	}
	may, refusal := MachinesFor(pool.pool, link, offer.Labels.Map())
	v := LinkVIP{VIP: offer.VIP, Homes: list(offer.Link.Homes), May: may, Local: offer.LocalTraffic, At: list(offer.Link.At), Served: offer.Endpoints.Any > 0, NotFollowed: offer.Endpoints.NotFollowed}
	v.Pinned = offer.Link.Home != "" && len(v.Homes) > 0 && v.Homes[0] == offer.Link.Home
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
func MachinesFor(pool *inventory.Pool, link inventory.Link, labels map[string]string) (may []string, refusal lb.Reason) {
	refusal = lb.PoolLimitedToServices
	for i := range pool.Advertise {
		advertise := &pool.Advertise[i]
		if !advertise.Selector.Matches(labels) {
			continue
		}
		if len(advertise.Racks) == 0 && len(advertise.Zones) == 0 {
			return nil, ""
		}
		refusal = lb.PoolLimitedToRacks
		for _, m := range link.Machines {
			if placeRefusal(advertise, m.Rack, m.Zone) == "" && !slices.Contains(may, m.Name) {
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
func addLinkVIP(all []LinkVIP, vip LinkVIP) []LinkVIP {
	n := len(all)
	if n == 0 || all[n-1].VIP != vip.VIP {
		return append(all, vip)
	}
	same := &all[n-1]
	served := same.Served
	same.Pinned, same.Served = same.Pinned || vip.Pinned, same.Served || vip.Served
	same.NotFollowed = !same.Served && (same.NotFollowed || vip.NotFollowed)
	same.May = eitherMay(same.May, vip.May)
	switch {
	case same.Local && vip.Local:
		same.At = slices.Compact(slices.Sorted(slices.Values(slices.Concat(same.At, vip.At))))
	case !vip.Local && vip.Served:
		same.Local, same.At = false, nil
	case vip.Local && vip.Served && !served:
		same.Local, same.At = true, vip.At // nothing of the others is to be reached
	}
	return all
}

// Segment is the link as a machine knows it, from what it knows of the others.
func (p LinkPlan) Segment(self string, standing func(name string) Standing, witness Witness) Segment {
	seg := Segment{Self: self, Witness: witness, Lingers: p.Leaving == lb.MachineDrained && !p.Silent}
	for _, m := range p.Link.Machines {
		neighbor := Neighbor{Name: m.Name, Active: m.State == inventory.StateActive, Standing: Up}
		switch {
		case m.Name != self:
			neighbor.Standing = standing(m.Name)
		case p.Leaving != "":
			neighbor.Standing = Leaving
		}
		seg.Machines = append(seg.Machines, neighbor)
	}
	return seg
}

// Refused returns the refusal of each offer of the plan for whose VIP this machine does not answer, sorted.
// owners are sorted.
func (p LinkPlan) Refused(owners []Owned) []Refusal {
	all := slices.Clone(p.Refusals)
	for _, offer := range p.Offers {
		i, known := slices.BinarySearchFunc(owners, offer.VIP, func(a Owned, vip netip.Addr) int { return a.VIP.Compare(vip) })
		said := slices.ContainsFunc(p.Refusals, func(refusal Refusal) bool { return refusal.VIP == offer.VIP && refusal.Service == offer.Service })
		if !known || said || owners[i].Reason == "" {
			continue
		}
		all = append(all, Refusal{Service: offer.Service, VIP: offer.VIP, Reason: cmp.Or(p.Leaving, owners[i].Reason)})
	}
	slices.SortFunc(all, Refusal.Compare)
	return all
}
