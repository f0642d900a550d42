package plan

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/sorted"
)

// Plan is the desired state of the announcements and of the kernel.
type Plan struct {
	BGP     bgp.Config
	Routing routing.Table
	Refused sorted.List[advertise.Refusal]
	Demoted sorted.List[advertise.Demotion]
	Links   []advertise.LinkPlan
}

// Of plans announcements beside the routes. A pod CIDR of ours that an older Node
// claims is not announced: what we said of it would draw that Node's packets here.
func Of(announcer *advertise.Planner, in Inputs, machine inventory.Machine, ph Phase, proxyHealthy bool, st Step, routes routing.Table) Plan {
	view := advertise.View{
		Inventory: announcing(in.Inventory, st), Machine: machine, PodCIDRs: ownCIDRs(in.Self, routes.Refusals), Offers: in.Passed,
		Excluded: in.Self.Excluded, ProxyHealthy: proxyHealthy, Draining: ph.Draining, Withdrawn: ph.Withdrawn,
	}
	announce := announcer.Plan(view)
	plan := Plan{Refused: announce.Refusals, Demoted: announce.Demotions, Routing: routes, Links: advertise.LinksOf(view)}
	for _, l := range plan.Links {
		plan.Refused = plan.Refused.Edit(nil, l.Refusals)
	}
	plan.BGP = bgp.Config{RouterID: routerID(machine.Addresses), Within: mayLeave(in, machine)}
	for _, s := range announce.Sessions {
		plan.BGP.Sessions = append(plan.BGP.Sessions, bgp.SessionConfig{SessionPlan: s, Password: in.Passwords[s.Session.Password]})
	}
	return plan
}

// announcing is the inventory as it counts for announcements.
func announcing(inv *inventory.Inventory, st Step) *inventory.Inventory {
	if !st.Fabric || inv.PodNetwork.Mode == inventory.ModeFabric {
		return inv
	}
	still := *inv
	still.PodNetwork.Mode = inventory.ModeFabric
	return &still
}

func ownCIDRs(self Node, refused []routing.Refusal) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(self.PodCIDRs), func(c netip.Prefix) bool {
		return slices.ContainsFunc(refused, func(r routing.Refusal) bool {
			return r.Node == self.Name && r.CIDR == c && r.Reason == routing.PodCIDRInUse
		})
	})
}

// RoutingView returns the view that routes are planned from. down are the addresses of routers that
// lost their session while another one has its own.
func RoutingView(in Inputs, m inventory.Machine, mode inventory.Mode, down map[netip.Addr]bool) routing.View {
	self := in.Self.Node
	if len(self.Addresses) == 0 {
		self.Addresses = m.Addresses // others see none, and so have nothing that this could differ from
	}
	v := routing.ViewOf(in.Inventory, m, self, mode, down)
	v.Nodes, v.Declared, v.Pools, v.Taken = in.Nodes, routing.DeclaredIn(in.Inventory), in.Answered, in.Taken
	if v.Pools == nil {
		v.Pools = PrefixesIn(PoolAddresses(in.Inventory))
	}
	return v
}

// mayLeave returns the prefixes that any session may announce, whatever the planner plans: the declared
// pools, but for what is announced on links, and pod CIDRs.
func mayLeave(in Inputs, machine inventory.Machine) []netip.Prefix {
	var ranges []inventory.Range
	for _, pool := range in.Inventory.Pools {
		ranges = append(ranges, pool.RangesOverBGP()...)
	}
	pods := slices.Concat(in.Inventory.PodNetwork.CIDRs, machine.PodCIDRs)
	if len(pods) == 0 {
		pods = in.Self.PodCIDRs // a CNI's
	}
	return PrefixesIn(inventory.SetOf(append(ranges, inventory.PrefixRanges(pods)...), nil))
}

// routerID is the machine's first IPv4 address. A machine without one gets a number
// that is made of its IPv6 address: it need only differ from those of the
// other speakers of the AS (RFC 6286), and be a host's address, which RFC 4271, section 6.2, wanted and some routers ask for.
func routerID(addrs []netip.Addr) netip.Addr {
	if a := inventory.FirstOf(addrs, true); a.IsValid() {
		return a
	}
	sum := fnv.New32a()
	for _, a := range addrs {
		b := a.As16()
		_, _ = sum.Write(b[:])
	}
	for {
		var id [4]byte
		binary.BigEndian.PutUint32(id[:], sum.Sum32())
		if isHost(id) {
			return netip.AddrFrom4(id)
		}
		_, _ = sum.Write([]byte{0})
	}
}

// isHost reports whether an IPv4 address is one that a host can have: none of 0/8 and 127/8 (RFC 1122, section 3.2.1.3), and none of
// 224/3, of groups and what is reserved (RFC 1112, section 4).
func isHost(a [4]byte) bool { return a[0] != 0 && a[0] != 127 && a[0] < 224 }

// Reasons counts the refusals of a plan by reason.
func (p Plan) Reasons() map[string]int {
	counts := map[string]int{}
	for r := range p.Refused.All() {
		counts[string(r.Reason)]++
	}
	for _, r := range p.Routing.Refusals {
		counts[string(r.Reason)]++
	}
	return counts
}

// Key tells apart what something was planned from: the same key, the same plan.
type Key struct {
	Version
	Step
}

// Withholds reports whether a VIP whose rules are gone is left to other machines.
func (p Plan) Withholds(q advertise.Question) bool {
	onLink := slices.ContainsFunc(p.Links, func(l advertise.LinkPlan) bool {
		return l.Leaving != "" && l.Link.Subnet.Contains(q.VIP)
	})
	return onLink || p.Refused.Has(advertise.Refusal{Service: q.Service, VIP: q.VIP, Reason: lb.ProxyRulesLost})
}
