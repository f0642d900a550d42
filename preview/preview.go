package preview

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Announcement is a machine that tells a router of a VIP, or that answers for it on a link: "link"
// and the subnet stand in the place of the router then, and it has no prefix and no weight.
type Announcement struct {
	Machine       string
	advertise.Hop // Weight is 0, too, where the router weighs equally
}

// VIP is an address in use, and its announcements.
type VIP struct {
	Addr     netip.Addr
	Services []lb.ServiceKey // that hold it
	// By are the announcements of it, sorted by machine. Several VIPs may share the list.
	By []Announcement
	// Reasons say of how many machines each is why they do not, or not to some router.
	Reasons map[lb.Reason]int
	// Able are the machines that can answer for it where it is on a link and one of them does, sorted.
	Able []string
}

// Preview holds the announcements of a datacenter.
type Preview struct {
	VIPs []VIP // sorted by address

	inv      *inventory.Inventory
	machines []machine
	byNode   map[string]int // their places, by the names of their Nodes
	selects  []string       // the keys of labels that advertisements select Services by
	failed   Failures
	services []Service
	equal    map[string]bool // the routers that weigh equally
	links    map[netip.Prefix]inventory.Link
	homes    map[netip.Addr][]string // of VIPs on links, until now
	chosen   map[netip.Addr][]string // as the controller would choose them; nil: nobody has asked
	owners   map[netip.Addr]string   // who answered for them until now, where that is known
	// deadNodes are the Nodes of machines that failed.
	deadNodes map[string]bool
	paths     []PodPath // once somebody has asked
	classes   map[class]answer
}

// machine is one machine and what it reaches.
type machine struct {
	name    string
	node    string // the name of its Node
	reach   advertise.Reach
	inv     inventory.Machine
	pods    []netip.Prefix
	created time.Time

	excluded, noAgent bool
}

// class is the common key of VIPs that every machine decides on alike. The pool determines where and
// how they are announced; the family, over which sessions; the rest, whether they can be served.
type class struct {
	pool     int // its place in the inventory; less than 0: none
	family   lb.Family
	local    bool // externalTrafficPolicy: Local, on a machine without an endpoint
	anywhere bool // an endpoint can take traffic somewhere
	hidden   bool // none can, and the Service's proxy does not follow the EndpointSlices of some that could
	labels   advertise.Labels
}

// answer is the decision of all machines on a class.
type answer struct {
	by      []Announcement
	reasons map[lb.Reason]int
}

// Of plans for every machine of an inventory that has a Node; where no Node is known, for every
// machine. The inventory is whole and carved.
func Of(inv *inventory.Inventory, c Cluster, failed Failures) *Preview {
	if c.Nodes == nil {
		return of(inv, c, failed, inv.Identify, slices.Collect(inv.Machines()))
	}
	return of(inv, c, failed, inv.Identify, nil)
}

// of plans for the machines that Nodes are identified as, and for others.
func of(inv *inventory.Inventory, cluster Cluster, failed Failures, identify func(inventory.NodeIdentity) (inventory.Machine, error), others []inventory.Machine) *Preview {
	preview := &Preview{inv: inv, failed: failed, deadNodes: map[string]bool{}, classes: map[class]answer{}, selects: inv.AdvertiseLabels(), equal: equalRouters(inv), links: linksOf(inv), homes: cluster.Homes, owners: cluster.Owners}
	for name, n := range cluster.Nodes {
		n.Identity.Name = name
		if m, err := identify(n.Identity); err == nil {
			preview.addMachine(m, name, n)
		}
	}
	for _, m := range others {
		preview.addMachine(m, m.Name, Node{})
	}
	slices.SortFunc(preview.machines, func(a, b machine) int { return cmp.Compare(a.name, b.name) })
	preview.services = cluster.Services
	preview.announce()
	return preview
}

// equalRouters are the routers that give all next hops the same weight, whatever they are told.
func equalRouters(inv *inventory.Inventory) map[string]bool {
	all := map[string]bool{}
	for _, r := range inv.Routers {
		if inventory.WeighsEqually(r.OS) {
			all[r.Name] = true
		}
	}
	return all
}

// announce plans all VIPs.
func (p *Preview) announce() {
	p.byNode = map[string]int{}
	for i, m := range p.machines {
		p.byNode[m.node] = i
	}
	all := map[netip.Addr]*VIP{}
	onLinks := map[netip.Addr]*onLink{}
	services := Cluster{Services: p.services}.without(p.deadNodes)
	for i := range services {
		for _, a := range services[i].VIPs {
			if l, pool, is := p.linkOf(a); is {
				p.addOnLink(onLinks, l, pool, &services[i], a)
			} else {
				p.add(all, &services[i], a)
			}
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		p.VIPs = append(p.VIPs, *all[a])
	}
	if len(onLinks) > 0 {
		p.VIPs = append(p.VIPs, p.announceOnLinks(onLinks)...)
		slices.SortFunc(p.VIPs, func(a, b VIP) int { return a.Addr.Compare(b.Addr) })
	}
}

// With is the preview with more failures.
func (p *Preview) With(f Failures) *Preview {
	out := &Preview{inv: p.inv, failed: p.failed.And(f), deadNodes: maps.Clone(p.deadNodes), classes: map[class]answer{}, selects: p.selects, equal: p.equal, services: p.services,
		links: p.links, homes: p.homes, chosen: p.chosen, owners: p.ownersNow()} // a machine that fails has no say in homes
	for _, m := range p.machines {
		if f.Machines[m.name] {
			out.deadNodes[m.node] = true
		} else {
			out.machines = append(out.machines, m)
		}
	}
	out.announce()
	return out
}

func (p *Preview) addMachine(own inventory.Machine, node string, n Node) {
	if p.failed.Machines[own.Name] {
		p.deadNodes[node] = true
		return
	}
	pods := n.PodCIDRs
	if len(pods) == 0 {
		pods = own.PodCIDRs
	}
	reach := advertise.ReachOf(advertise.View{Inventory: p.inv, Machine: own, PodCIDRs: pods, Excluded: n.Excluded, ProxyHealthy: true})
	p.machines = append(p.machines, machine{own.Name, node, reach, own, pods, n.Created, n.Excluded, n.NoAgent})
}

// poolOf is the place of the pool whose ranges hold an address; less than 0: there is none.
func (p *Preview) poolOf(a netip.Addr) int {
	return slices.IndexFunc(p.inv.Pools, func(pool inventory.Pool) bool { return pool.Covers(a) })
}

// add plans one VIP of a Service.
func (p *Preview) add(all map[netip.Addr]*VIP, service *Service, a netip.Addr) {
	said := p.answer(service, a)
	vip := all[a]
	if vip == nil {
		all[a] = &VIP{Addr: a, Services: []lb.ServiceKey{service.Key}, By: said.by, Reasons: said.reasons}
		return
	}
	vip.Services = append(vip.Services, service.Key)
	if len(said.by) > 0 && len(vip.By) > 0 {
		vip.By = merged(vip.By, said.by)
	} else {
		vip.By = append(vip.By[:len(vip.By):len(vip.By)], said.by...)
	}
	if len(vip.Reasons) == 0 {
		vip.Reasons = said.reasons
	}
}

// merged are the announcements of either.
func merged(a, b []Announcement) []Announcement {
	out := slices.Concat(a, b)
	slices.SortFunc(out, Announcement.compare)
	return slices.CompactFunc(out, func(a, b Announcement) bool { return a.Machine == b.Machine && a.Router == b.Router })
}

// compare sorts by machine and router, and puts first what a router goes by.
func (a Announcement) compare(b Announcement) int {
	return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Router, b.Router), a.Hop.Compare(b.Hop))
}

// answer returns the decision of all machines on a VIP of a Service.
func (p *Preview) answer(service *Service, addr netip.Addr) answer {
	if len(p.machines) == 0 {
		return answer{}
	}
	spread := service.Endpoints[lb.FamilyOf(addr)]
	offer := advertise.Offer{Service: service.Key, VIP: addr, LocalTraffic: service.LocalTraffic, Endpoints: spread.At(""), Labels: advertise.LabelsOf(service.Labels, p.selects)}
	kind := class{p.poolOf(addr), lb.FamilyOf(addr), service.LocalTraffic, offer.Endpoints.Any > 0, offer.Endpoints.NotFollowed, offer.Labels}
	said, known := p.classes[kind]
	if !known {
		said = p.ask(kind.pool, p.machines, func(string) advertise.Offer { return offer })
		p.classes[kind] = said
	}
	if !service.LocalTraffic {
		return said
	}
	return p.withEndpoints(kind.pool, said, offer, spread)
}

// withEndpoints is the answer to a VIP with local traffic, where that of the machines without an
// endpoint is known.
func (p *Preview) withEndpoints(pool int, without answer, offer advertise.Offer, spread advertise.Spread) answer {
	some := p.machinesWith(spread)
	said := p.ask(pool, some, func(node string) advertise.Offer {
		o := offer
		o.Endpoints = spread.At(node)
		return o
	})
	instead := p.ask(pool, some, func(string) advertise.Offer { return offer })
	for reason, n := range without.reasons {
		if n -= instead.reasons[reason]; n > 0 {
			said.reasons[reason] += n
		}
	}
	return said
}

// machinesWith are the machines that have an endpoint, sorted.
func (p *Preview) machinesWith(spread advertise.Spread) (some []machine) {
	var places []int
	for _, counted := range []map[string]int{spread.Ready, spread.Ending} {
		for node := range counted {
			if at, known := p.byNode[node]; known {
				places = append(places, at)
			}
		}
	}
	for _, at := range inventory.SortedOnce(places) {
		some = append(some, p.machines[at])
	}
	return some
}

// ask asks some machines, each about its own offer of a pool.
func (p *Preview) ask(pool int, some []machine, offer func(node string) advertise.Offer) answer {
	said := answer{reasons: map[lb.Reason]int{}}
	for _, m := range some {
		hops, refused := m.reach.Of(offer(m.node), pool)
		for _, h := range hops {
			if p.equal[h.Router] {
				h.Weight = 0
			}
			if !p.failed.Routers[h.Router] {
				said.by = append(said.by, Announcement{m.name, h})
			}
		}
		for i, r := range refused {
			if i == 0 || r.Reason != refused[i-1].Reason {
				said.reasons[r.Reason]++
			}
		}
	}
	return said
}

// VIP returns the announcements of an address; false: no Service holds it.
func (p *Preview) VIP(a netip.Addr) (VIP, bool) {
	i, found := slices.BinarySearchFunc(p.VIPs, a, func(v VIP, a netip.Addr) int { return v.Addr.Compare(a) })
	if !found {
		return VIP{}, false
	}
	return p.VIPs[i], true
}
