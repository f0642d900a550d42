package inventory

import (
	"net/netip"
	"slices"
	"time"
)

// Via is the way by which a pool's addresses in the subnets of a rack are announced.
type Via string

// The ways. Addresses outside every subnet are announced over BGP.
const (
	ViaBGP  Via = "bgp"
	ViaLink Via = "link" // by ARP (RFC 826) and neighbour discovery (RFC 4861), on the subnet itself
)

// Defaults of the settings of a link.
const (
	defaultLinkInterval  = 100 * time.Millisecond
	defaultAnnounceEvery = time.Minute
)

// OnLink are the settings of links that the spec gives for all, and a rack may override.
type OnLink struct {
	BFD           Option[string] // name of a BFDProfile
	Witness       []netip.Addr   // sorted; of all subnets; none: nobody said
	AnnounceEvery Option[time.Duration]
}

// Override returns the settings, with those replaced that next gives.
func (o OnLink) Override(next OnLink) OnLink {
	out := OnLink{o.BFD.override(next.BFD), o.Witness, o.AnnounceEvery.override(next.AnnounceEvery)}
	if len(next.Witness) > 0 {
		out.Witness = next.Witness
	}
	return out
}

// Link is a subnet on which machines answer for addresses of pools, with every default applied.
type Link struct {
	Subnet netip.Prefix
	// Machines are the machines of every rack that has the subnet, as far as they have an address in it and are
	// not retired, in the inventory's order.
	Machines   []LinkMachine
	Interval   time.Duration // of BFD between the machines (RFC 5880)
	Multiplier uint8         // missed packets until one is taken to be down
	// Witness are the hosts by which a machine that is alone on the subnet is distinguished from one that is cut off, sorted. Empty: the
	// inventory knows none, and each machine takes its default gateway if that lies in the subnet.
	Witness       []netip.Addr
	AnnounceEvery time.Duration // time between two announcements of what has not changed
}

// LinkMachine is a machine on a link.
type LinkMachine struct {
	Name  string
	Rack  string
	Zone  string
	Addr  netip.Addr // its first one in the subnet
	State State
}

// LinkSubnet returns the subnet of the link that an address of a pool is announced on; false: it is announced over
// BGP, or lies in no pool. An address that its pool excludes stays on the link, and so does one of a
// disabled pool: whether it is announced at all is another question.
func (inv *Inventory) LinkSubnet(vip netip.Addr) (netip.Prefix, bool) {
	for i := range inv.Pools {
		if p := &inv.Pools[i]; p.Covers(vip) {
			at := slices.IndexFunc(p.Links, func(s netip.Prefix) bool { return s.Contains(vip) })
			if at < 0 {
				return netip.Prefix{}, false
			}
			return p.Links[at], true
		}
	}
	return netip.Prefix{}, false
}

// Links returns the links on which addresses of pools are announced, sorted by subnet.
func (inv *Inventory) Links() []Link {
	var subnets []netip.Prefix
	for _, p := range inv.Pools {
		subnets = append(subnets, p.Links...)
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	var out []Link
	for _, s := range slices.Compact(subnets) {
		out = append(out, inv.LinkAt(s))
	}
	return out
}

// LinksOf returns those of [Inventory.Links] that the machine of that name is on.
func (inv *Inventory) LinksOf(machine string) []Link {
	return slices.DeleteFunc(inv.Links(), func(l Link) bool { _, on := l.Machine(machine); return !on })
}

// Machine returns the machine of that name on the link.
func (l Link) Machine(name string) (LinkMachine, bool) {
	return Find(l.Machines, func(m LinkMachine) bool { return m.Name == name })
}

// ActiveMachines are the names of the link's machines that are active.
func (l Link) ActiveMachines() (names []string) {
	for _, m := range l.Machines {
		if m.State == StateActive {
			names = append(names, m.Name)
		}
	}
	return names
}

// LinkAt is the one on a subnet: as a slice has it that does not have all of its racks, or else as the racks say. In a rack's
// slice the link of other racks has neither machines nor a witness.
func (inv *Inventory) LinkAt(subnet netip.Prefix) Link {
	link := Link{Subnet: subnet, Interval: defaultLinkInterval, Multiplier: DefaultMultiplier, AnnounceEvery: defaultAnnounceEvery}
	first := true
	for i := range inv.Racks {
		rack := &inv.Racks[i]
		if !slices.Contains(rack.Subnets, subnet) {
			continue
		}
		if at := slices.IndexFunc(rack.Links, func(l Link) bool { return l.Subnet == subnet }); at >= 0 {
			return rack.Links[at]
		}
		if first { // all racks of a subnet say the same
			link, first = inv.LinkSettings(*rack, subnet), false
		}
		link.Machines = append(link.Machines, rack.onSubnet(subnet)...)
	}
	return link
}

// LinkSettings is a link of a rack without its machines.
func (inv *Inventory) LinkSettings(r Rack, subnet netip.Prefix) Link {
	o := inv.OnLink.Override(r.OnLink)
	link := Link{
		Subnet: subnet, Interval: defaultLinkInterval, Multiplier: DefaultMultiplier, AnnounceEvery: o.AnnounceEvery.Or(defaultAnnounceEvery),
		Witness: slices.DeleteFunc(slices.Clone(o.Witness), func(a netip.Addr) bool { return !subnet.Contains(a) }),
	}
	if p := inv.BFDProfile(o.BFD.Value); p.Interval > 0 {
		link.Interval, link.Multiplier = p.Interval, p.Multiplier
	}
	if len(link.Witness) == 0 {
		link.Witness = inv.routersIn(subnet)
	}
	return link
}

// routersIn are the addresses in a subnet of the spec's routers, and of those that racks of the subnet
// have or peer with, sorted.
func (inv *Inventory) routersIn(subnet netip.Prefix) (out []netip.Addr) {
	near := func(router Router) bool {
		return router.Rack == "" || slices.ContainsFunc(inv.Racks, func(r Rack) bool {
			return slices.Contains(r.Subnets, subnet) && (r.Name == router.Rack || slices.Contains(r.Peers, router.Name))
		})
	}
	for _, router := range inv.Routers {
		for _, a := range router.Addresses {
			if subnet.Contains(a) && near(router) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// onSubnet are the rack's machines that have an address in the subnet.
func (r *Rack) onSubnet(subnet netip.Prefix) (out []LinkMachine) {
	for i := range r.Machines {
		m := &r.Machines[i]
		if at := slices.IndexFunc(m.Addresses, subnet.Contains); at >= 0 && m.State != StateRetired {
			out = append(out, LinkMachine{m.Name, r.Name, r.Zone, m.Addresses[at], m.State})
		}
	}
	return out
}

// sharedLinks returns the links of a rack that other racks are on as well.
func (inv *Inventory) sharedLinks(of Rack) (out []Link) {
	for _, l := range inv.Links() {
		shared := slices.ContainsFunc(l.Machines, func(m LinkMachine) bool { return m.Rack != of.Name }) || slices.ContainsFunc(inv.Racks, func(r Rack) bool {
			return r.Name != of.Name && slices.Contains(r.Subnets, l.Subnet)
		})
		if shared && slices.Contains(of.Subnets, l.Subnet) {
			out = append(out, l)
		}
	}
	return out
}

// FindLinks works out of each pool which subnets it is announced on: those that hold an address of
// it, where it has via: link, or no via and no rack of the subnet has a router.
func (inv *Inventory) FindLinks() {
	routed := map[netip.Prefix]bool{}
	for _, r := range inv.Racks {
		for _, s := range r.Subnets {
			routed[s] = routed[s] || len(r.Peers) > 0
		}
	}
	inv.Pools = slices.Clone(inv.Pools)
	for i := range inv.Pools {
		pool := &inv.Pools[i]
		pool.Links = nil
		for s, hasRouter := range routed {
			if pool.Overlaps(s) && (pool.Via == ViaLink || pool.Via == "" && !hasRouter) {
				pool.Links = append(pool.Links, s)
			}
		}
		slices.SortFunc(pool.Links, netip.Prefix.Compare)
	}
}

// Overlaps reports whether addresses of the pool lie in the subnet, be they excluded or not.
func (p Pool) Overlaps(subnet netip.Prefix) bool {
	return slices.ContainsFunc(p.Ranges, func(r Range) bool { return r.Overlaps(RangeOf(subnet)) })
}

// RangesOverBGP are the pool's ranges without what is announced on links; excluded addresses are among
// them.
func (p Pool) RangesOverBGP() []Range {
	if len(p.Links) == 0 {
		return p.Ranges
	}
	return RangesOf(SetOf(p.Ranges, PrefixRanges(p.Links)))
}

// OverBGP are the addresses that the pool gives and announces over BGP.
func (p Pool) OverBGP(rs ...Range) []Range {
	return RangesOf(SetOf(rs, slices.Concat(p.Exclude, PrefixRanges(p.Links))))
}

// OnLinksOnly reports whether every address that the pool gives is announced on a link.
func (p Pool) OnLinksOnly() bool { return len(p.Links) > 0 && len(p.OverBGP(p.Ranges...)) == 0 }
