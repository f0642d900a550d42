package agent

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/sorted"
)

// inputs are all that a plan is made of, and all that is kept on disk.
type inputs struct {
	Inventory *inventory.Inventory
	Self      node
	Nodes     []*routing.Node // by name
	Offers    sorted.List[advertise.Offer]
	Passed    sorted.List[advertise.Offer] // the same, as the gate has them planned with
	Passwords map[inventory.SecretKey]bgp.Password
	Answered  []netip.Prefix // addresses of pools that are answered for where nobody serves them; nil: those of all pools
	Taken     []netip.Prefix // what Nodes of the cluster have of pools

	version version
	trial   *source.Trial // whose inventory this is; nil: it is the accepted one
}

// version tells inputs apart: the same version, the same plan.
type version struct {
	inventory                    *inventory.Inventory
	self, nodes, secrets, offers uint64 // changes so far
	passed                       uint64
	rotation                     uint64 // changes so far of what sessions are planned with
	answered, taken              uint64
}

// forRoutes is the part of a version that routes depend on: most events are about Services.
func (v version) forRoutes() version {
	v.offers, v.passed, v.rotation = 0, 0, 0
	return v
}

// machine is which machine of the inventory this Node is.
func (in inputs) machine() (inventory.Machine, error) {
	return in.Inventory.MachineOf(in.Self.Identity)
}

// serving are these inputs with what is to be reached now, as others have it. Services are followed by labels and links of the
// newest inventory: where that knows fewer than this one, what the others have says nothing about this one's pools.
func (in inputs) serving(now inputs) inputs {
	in.Taken, in.version.taken = now.Taken, now.version.taken // pods run on, whichever machine this is
	sameLabels := containsAll(now.Inventory.AdvertiseLabels(), in.Inventory.AdvertiseLabels())
	sameLinks := containsAll(subnetsOf(now.Inventory.Links()), subnetsOf(in.Inventory.Links()))
	if sameLabels && sameLinks {
		in.Offers, in.version.offers = now.Offers, now.version.offers
		in.Self.Excluded, in.version.self = now.Self.Excluded, now.version.self
	}
	return in
}

// isUnlisted reports whether nothing in the inventory is of this Node, by the error of
// [inputs.machine]. A namesake with other IDs is, and so is one on a link: the others know it by its name,
// and count it. It may have come to another rack, which the Node does not say yet.
func (in inputs) isUnlisted(err error) bool {
	name := in.Self.Identity.Name
	_, namesake := in.Inventory.Machine(name)
	return errors.Is(err, inventory.ErrNoMachine) && !namesake && len(in.Inventory.LinksOf(name)) == 0
}

// begin says why this Node is not to be served by an agent that begins: it was left behind by
// a machine in whose place the inventory has another. One that runs goes on, for an edit of an ID
// alone is no reason to take traffic from a machine.
func (in inputs) begin() error {
	_, err := in.Inventory.Identify(in.Self.Identity)
	return err
}

// plan is what is to be said and to be in the kernel.
type plan struct {
	BGP     bgp.Config
	Routing routing.Table
	Refused sorted.List[advertise.Refusal]
	Demoted sorted.List[advertise.Demotion]
	Links   []advertise.LinkPlan
}

// planOf plans announcements beside the routes. A pod CIDR of ours that an older Node
// claims is not announced: what we said of it would draw that Node's packets here.
func planOf(announcer *advertise.Planner, in inputs, m inventory.Machine, ph phase, proxyHealthy bool, st stage, routes routing.Table) plan {
	view := advertise.View{
		Inventory: announcing(in.Inventory, st), Machine: m, PodCIDRs: ownCIDRs(in.Self, routes.Refusals), Offers: in.Passed,
		Excluded: in.Self.Excluded, ProxyHealthy: proxyHealthy, Draining: ph.Draining, Withdrawn: ph.Withdrawn,
	}
	announce := announcer.Plan(view)
	p := plan{Refused: announce.Refusals, Demoted: announce.Demotions, Routing: routes, Links: advertise.LinksOf(view)}
	for _, l := range p.Links {
		p.Refused = p.Refused.Edit(nil, l.Refusals)
	}
	p.BGP = bgp.Config{RouterID: routerID(m.Addresses), Within: mayLeave(in, m)}
	for _, s := range announce.Sessions {
		p.BGP.Sessions = append(p.BGP.Sessions, bgp.SessionConfig{SessionPlan: s, Password: in.Passwords[s.Session.Password]})
	}
	return p
}

// announcing is the inventory as it counts for announcements.
func announcing(inv *inventory.Inventory, st stage) *inventory.Inventory {
	if !st.fabric || inv.PodNetwork.Mode == inventory.ModeFabric {
		return inv
	}
	still := *inv
	still.PodNetwork.Mode = inventory.ModeFabric
	return &still
}

func ownCIDRs(self node, refused []routing.Refusal) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(self.PodCIDRs), func(c netip.Prefix) bool {
		return slices.ContainsFunc(refused, func(r routing.Refusal) bool {
			return r.Node == self.Name && r.CIDR == c && r.Reason == routing.PodCIDRInUse
		})
	})
}

// routingView is what routes are planned from. down are the addresses of routers that
// lost their session while another one has its own.
func routingView(in inputs, m inventory.Machine, mode inventory.Mode, down map[netip.Addr]bool) routing.View {
	self := in.Self.Node
	if len(self.Addresses) == 0 {
		self.Addresses = m.Addresses // others see none, and so have nothing that this could differ from
	}
	v := routing.ViewOf(in.Inventory, m, self, mode, down)
	v.Nodes, v.Declared, v.Pools, v.Taken = in.Nodes, routing.DeclaredIn(in.Inventory), in.Answered, in.Taken
	if v.Pools == nil {
		v.Pools = prefixesIn(poolsOf(in.Inventory))
	}
	return v
}

// poolsOf are the addresses that a VIP can have. What a pool
// excludes may be a machine's: it is reached as ever.
func poolsOf(inv *inventory.Inventory) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, p := range inv.Pools {
		for _, r := range p.Ranges {
			b.AddRange(netipx.IPRangeFrom(r.First, r.Last))
		}
	}
	for _, p := range inv.Pools {
		for _, r := range p.Exclude {
			b.RemoveRange(netipx.IPRangeFrom(r.First, r.Last))
		}
	}
	return setOf(&b)
}

// mayLeave bounds what any session may say, whatever the planner says: the declared
// pools, but for what is announced on links, and pod CIDRs.
func mayLeave(in inputs, m inventory.Machine) []netip.Prefix {
	var b netipx.IPSetBuilder
	for _, p := range in.Inventory.Pools {
		for _, r := range p.RangesOverBGP() {
			b.AddRange(netipx.IPRangeFrom(r.First, r.Last))
		}
	}
	pods := slices.Concat(in.Inventory.PodNetwork.CIDRs, m.PodCIDRs)
	if len(pods) == 0 {
		pods = in.Self.PodCIDRs // a CNI's
	}
	for _, p := range pods {
		b.AddPrefix(p)
	}
	return prefixesOf(&b)
}

func prefixesOf(b *netipx.IPSetBuilder) []netip.Prefix { return prefixesIn(setOf(b)) }

// prefixesIn are those of a set.
func prefixesIn(set *netipx.IPSet) []netip.Prefix {
	if set.Prefixes() == nil {
		return []netip.Prefix{} // not nil: nothing is allowed then, and not everything
	}
	return set.Prefixes()
}

// setOf is what a builder has collected, without what it could not read.
func setOf(b *netipx.IPSetBuilder) *netipx.IPSet {
	set, err := b.IPSet()
	if err != nil {
		return new(netipx.IPSet)
	}
	return set
}

// routerID is the machine's first IPv4 address. A machine without one gets a number
// that is made of its IPv6 address: it need only differ from those of the
// other speakers of the AS (RFC 6286), and be a host's address, which RFC 4271, section 6.2, wanted and some routers ask for.
func routerID(addrs []netip.Addr) netip.Addr {
	if a := inventory.FirstOf(addrs, true); a.IsValid() {
		return a
	}
	h := fnv.New32a()
	for _, a := range addrs {
		b := a.As16()
		_, _ = h.Write(b[:])
	}
	for {
		var id [4]byte
		binary.BigEndian.PutUint32(id[:], h.Sum32())
		if isHost(id) {
			return netip.AddrFrom4(id)
		}
		_, _ = h.Write([]byte{0})
	}
}

// isHost reports whether an IPv4 address is one that a host can have: none of 0/8 and 127/8 (RFC 1122, section 3.2.1.3), and none of
// 224/3, of groups and what is reserved (RFC 1112, section 4).
func isHost(a [4]byte) bool { return a[0] != 0 && a[0] != 127 && a[0] < 224 }

// secretsOf are the names of the Secrets that the machine's sessions take passwords
// from, sorted.
func secretsOf(inv *inventory.Inventory, m inventory.Machine) []string {
	var names []string
	for _, s := range inv.Sessions(m) {
		if s.Password.Secret != "" {
			names = append(names, s.Password.Secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// neighbourhood selects the Nodes that a plan needs: those of the racks that share a
// subnet with ours, all of them in overlay. It reports false where none is needed.
func neighbourhood(inv *inventory.Inventory, mode inventory.Mode, rack string) (labels string, needed bool) {
	racks, all := routing.Neighbourhood(inv, mode, rack)
	if all || len(racks) == 0 {
		return "", all
	}
	return inventory.LabelRack + " in (" + strings.Join(racks, ",") + ")", true
}
