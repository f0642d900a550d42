package preview

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// onLink is a VIP that one machine of a subnet answers for, and its holders.
type onLink struct {
	link     inventory.Link
	pool     *inventory.Pool
	services []lb.ServiceKey
	offers   []advertise.Offer
	labels   []map[string]string // of the Services
	home     advertise.Home
}

// linkPrefix begins what stands in the place of a router where a VIP is announced on a link. No name of
// a router has a blank.
const linkPrefix = "link "

// OnLink reports whether the VIP is announced on its own subnet, to no router.
func (a Announcement) OnLink() bool { return strings.HasPrefix(a.Router, linkPrefix) }

// linksOf are the links of the inventory by their subnet.
func linksOf(inv *inventory.Inventory) map[netip.Prefix]inventory.Link {
	out := map[netip.Prefix]inventory.Link{}
	for _, l := range inv.Links() {
		out[l.Subnet] = l
	}
	return out
}

// linkOf is the link that a VIP is on, and its pool; false: it is announced over BGP, if at all.
func (p *Preview) linkOf(addr netip.Addr) (link inventory.Link, pool *inventory.Pool, is bool) {
	i := p.poolOf(addr)
	if i < 0 {
		return link, nil, false
	}
	pool = &p.inv.Pools[i]
	at := slices.IndexFunc(pool.Links, func(s netip.Prefix) bool { return s.Contains(addr) })
	if at < 0 {
		return link, nil, false
	}
	return p.links[pool.Links[at]], pool, true
}

// addOnLink adds one VIP on a link of a Service.
func (p *Preview) addOnLink(all map[netip.Addr]*onLink, link inventory.Link, pool *inventory.Pool, service *Service, addr netip.Addr) {
	vip := all[addr]
	if vip == nil {
		vip = &onLink{link: link, pool: pool, home: advertise.Home{VIP: addr, Held: p.homes[addr]}}
		all[addr] = vip
	}
	spread := service.Endpoints[lb.FamilyOf(addr)]
	vip.services = append(vip.services, service.Key)
	vip.offers = append(vip.offers, advertise.Offer{
		Service: service.Key, VIP: addr, LocalTraffic: service.LocalTraffic, Endpoints: spread.At(""), Labels: advertise.LabelsOf(service.Labels, p.selects),
		Link: advertise.OnLink{Home: service.Home, At: strings.Join(p.namesWith(spread), ",")},
	})
	vip.labels = append(vip.labels, service.Labels)
	vip.home.May = advertise.MayOf(pool, link, vip.labels)
	if vip.home.Pin == "" {
		vip.home.Pin = service.Home
	}
}

// namesWith are the machines that have an endpoint that can take traffic, sorted.
func (p *Preview) namesWith(spread advertise.Spread) (names []string) {
	from := spread
	if len(spread.Ready) > 0 {
		from.Ending = nil
	}
	for _, m := range p.machinesWith(from) {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return names
}

// announceOnLinks returns the VIPs on links with the machines that answer for them.
func (p *Preview) announceOnLinks(all map[netip.Addr]*onLink) (out []VIP) {
	if p.chosen == nil {
		p.chosen = p.homesOf(all)
	}
	segments := map[netip.Prefix]advertise.Segment{}
	for addr, vip := range all {
		seg, known := segments[vip.link.Subnet]
		if !known {
			seg = p.segment(vip.link)
			segments[vip.link.Subnet] = seg
		}
		for i := range vip.offers {
			vip.offers[i].Link.Homes = strings.Join(p.chosen[addr], ",")
		}
		out = append(out, p.owned(vip, seg, addr))
	}
	return out
}

// homesOf chooses the homes of the VIPs as the controller does: what an object says is held.
func (p *Preview) homesOf(all map[netip.Addr]*onLink) map[netip.Addr][]string {
	out := map[netip.Addr][]string{}
	for subnet, l := range p.links {
		var homes []advertise.Home
		for _, vip := range all {
			if vip.link.Subnet == subnet {
				homes = append(homes, vip.home)
			}
		}
		maps.Copy(out, advertise.Homes(l.ActiveMachines(), homes))
	}
	return out
}

// segment is the link as its machines see it: those that are here are up. The gateway answers: whether
// it does is not known here.
func (p *Preview) segment(l inventory.Link) advertise.Segment {
	seg := advertise.Segment{Witness: advertise.WitnessAnswers}
	for _, m := range l.Machines {
		neighbor := advertise.Neighbor{Name: m.Name, Active: m.State == inventory.StateActive, Standing: advertise.Down}
		at, here := slices.BinarySearchFunc(p.machines, m.Name, func(m machine, name string) int { return strings.Compare(m.name, name) })
		switch {
		case !here || p.machines[at].noAgent:
		case p.machines[at].excluded:
			neighbor.Standing = advertise.Leaving
		default:
			neighbor.Standing = advertise.Up
		}
		seg.Machines = append(seg.Machines, neighbor)
	}
	return seg
}

// owned is a VIP with the machine that answers for it, or the reasons why none does.
func (p *Preview) owned(vip *onLink, seg advertise.Segment, addr netip.Addr) VIP {
	out := VIP{Addr: addr, Services: vip.services, Reasons: map[lb.Reason]int{}}
	linkVIP, refusal := advertise.VIPOn(vip.link, vip.pool, vip.offers)
	if refusal != "" {
		out.Reasons[refusal] = max(1, len(seg.Machines))
		return out
	}
	owner, none := seg.Owner(linkVIP, p.owners[addr])
	if owner == "" {
		out.Reasons = notOwning(seg.Machines, linkVIP, none)
		return out
	}
	out.By = []Announcement{{owner, advertise.Hop{Router: linkPrefix + vip.link.Subnet.String()}}}
	others := slices.DeleteFunc(slices.Clone(seg.Machines), func(m advertise.Neighbor) bool { return m.Name == owner })
	out.Reasons = notOwning(others, linkVIP, lb.NotOwner)
	out.Able = seg.Able(linkVIP)
	return out
}

// notOwning counts the machines that are there by the reason why they do not answer: none, where nothing keeps them from it.
func notOwning(machines []advertise.Neighbor, vip advertise.LinkVIP, none lb.Reason) map[lb.Reason]int {
	out := map[lb.Reason]int{}
	for _, neighbor := range machines {
		reason := none
		switch {
		case neighbor.Standing == advertise.Down && neighbor.Active:
			continue
		case !neighbor.Active:
			reason = lb.MachineNotActive
		case vip.May != nil && !slices.Contains(vip.May, neighbor.Name):
			reason = lb.PoolLimitedToRacks
		case neighbor.Standing == advertise.Leaving:
			reason = lb.NodeExcluded
		}
		out[reason]++
	}
	return out
}

// ownersNow are the machines that answer for VIPs on links.
func (p *Preview) ownersNow() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, v := range p.VIPs {
		if len(v.By) > 0 && v.By[0].OnLink() {
			out[v.Addr] = v.By[0].Machine
		}
	}
	return out
}
