package preview

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Unannounced is a VIP in use that no machine announces.
type Unannounced struct {
	Addr     netip.Addr
	Services []lb.ServiceKey // that hold it
	Reason   lb.Reason       // of the machines that come nearest to announcing it
	Others   []lb.Reason     // that other machines have, sorted
	Detail   string          // of the reason, such as a MAC; empty: there is none
}

// String describes the reason why no machine announces the VIP.
func (u Unannounced) String() string {
	text := u.Addr.String() + ": " + cmp.Or(words[u.Reason], string(u.Reason))
	if u.Detail != "" {
		text += " (" + u.Detail + ")"
	}
	if len(u.Others) == 0 {
		return text
	}
	var others []string
	for _, r := range u.Others {
		others = append(others, string(r))
	}
	return text + "; other machines say " + strings.Join(others, ", ")
}

// UnannouncedOf returns the VIPs in use that no machine announces as things are, sorted by address.
//
// Besides what is planned it knows which agents say of themselves that they have no session, and
// where none has run. A machine of which nothing is heard any more counts as announcing what it is
// to: whether it does is not known here.
func UnannouncedOf(inv *inventory.Inventory, cluster Cluster) (all []Unannounced) {
	preview := Of(inv, cluster, Failures{})
	silent := preview.silent(cluster)
	for _, vip := range preview.VIPs {
		unannounced := Unannounced{Addr: vip.Addr, Services: vip.Services}
		switch {
		case len(vip.By) > 0 && vip.By[0].OnLink():
			if unannounced.Reason, unannounced.Detail = preview.disputedOf(cluster, vip); unannounced.Reason == "" {
				unannounced.Reason = preview.unableOf(cluster, vip)
			}
			if unannounced.Reason == "" {
				continue
			}
		case slices.ContainsFunc(vip.By, func(a Announcement) bool { return silent(a, vip.Addr) == "" }):
			continue
		case len(vip.Reasons) == 0 && len(vip.By) == 0:
			unannounced.Reason = lb.NoMachineKnown
		case len(vip.By) == 0:
			unannounced.Reason, unannounced.Others = vip.reason()
		default:
			by := slices.MinFunc(vip.By, func(a, b Announcement) int { return Nearer(silent(a, vip.Addr), silent(b, vip.Addr)) })
			unannounced.Reason = silent(by, vip.Addr)
		}
		all = append(all, unannounced)
	}
	return all
}

// silent returns a function that gives the reason why an announcement of a VIP to a router, which is planned, is not made; empty: it is.
func (p *Preview) silent(c Cluster) func(Announcement, netip.Addr) lb.Reason {
	mute, down, ruleless := p.mute(c), p.down(c), c.Ruleless()
	return func(a Announcement, vip netip.Addr) lb.Reason {
		if reason := mute[a.Machine]; reason != "" && (reason != lb.ProxyRulesLost || !ruleless[vip]) {
			return reason
		}
		if down[way{a.Machine, a.Router}].Has(netip.PrefixFrom(vip, vip.BitLen())) {
			return lb.NoSessionUp
		}
		return ""
	}
}

// Machines are those that are to announce the VIP, sorted.
func (v VIP) Machines() (names []string) {
	for _, a := range v.By {
		names = append(names, a.Machine)
	}
	return inventory.SortedOnce(names)
}

// Sessionless returns the machines that are to announce a VIP, and whose sessions that would carry it are all said to be down.
func (p *Preview) Sessionless(cluster Cluster, vip netip.Addr) (machines []string) {
	down := p.down(cluster)
	planned, _ := p.VIP(vip)
	carried := map[string]bool{}
	for _, a := range planned.By {
		carried[a.Machine] = carried[a.Machine] || !down[way{a.Machine, a.Router}].Has(netip.PrefixFrom(vip, vip.BitLen()))
	}
	for machine, is := range carried {
		if !is {
			machines = append(machines, machine)
		}
	}
	return machines
}

// way is where a machine announces VIPs to.
type way struct{ machine, router string }

// down are the families of ways that have sessions, of which each is said to be down.
func (p *Preview) down(c Cluster) map[way]inventory.Families {
	down, up := map[way]inventory.Families{}, map[way]inventory.Families{}
	for _, machine := range p.machines {
		ends := c.Nodes[machine.node].Down
		if len(ends) == 0 {
			continue
		}
		for _, session := range p.inv.Sessions(machine.inv) {
			of := up
			if slices.Contains(ends, SessionEnd{session.Router, session.RouterAddr}) {
				of = down
			}
			to := way{machine.name, session.Router}
			of[to] = of[to].With(session.Families)
		}
	}
	for to, families := range down {
		down[to] = inventory.Families{IPv4: families.IPv4 && !up[to].IPv4, IPv6: families.IPv6 && !up[to].IPv6}
	}
	return down
}

// mute are the machines that announce nothing, whatever is planned, and why.
func (p Preview) mute(c Cluster) map[string]lb.Reason {
	mute := map[string]lb.Reason{}
	for _, machine := range p.machines {
		switch n := c.Nodes[machine.node]; {
		case n.NoAgent:
			mute[machine.name] = lb.NoAgent
		case n.NoSession:
			mute[machine.name] = lb.NoSessionUp
		case n.ProxyRefuses:
			mute[machine.name] = lb.ProxyUnhealthy
		case n.NoRules:
			mute[machine.name] = lb.ProxyRulesLost
		}
	}
	return mute
}

// disputedOf returns the problem that agents report of a VIP on a link that more than its owner answers for, or not its owner;
// empty: there is none.
func (p *Preview) disputedOf(c Cluster, vip VIP) (lb.Reason, string) {
	for _, m := range p.machines {
		for _, l := range c.Nodes[m.node].LinkProblems {
			if addr, isVIP := l.VIP(); isVIP && addr == vip.Addr {
				return l.Reason, l.Detail
			}
		}
	}
	return "", ""
}

// Disputes reports whether a reason means that a VIP on a link is answered for by a host that should not.
func Disputes(r lb.Reason) bool {
	return r == lb.AddressConflict || r == lb.AnsweredByOther || r == lb.AddressOnInterface
}

// unableOf returns the reason why no machine that could answer for a VIP on a link does, by their agents' reports; empty:
// one may. That no session with a router is up is no reason.
func (p *Preview) unableOf(cluster Cluster, vip VIP) (reason lb.Reason) {
	subnet := strings.TrimPrefix(vip.By[0].Router, linkPrefix)
	for _, m := range p.machines {
		if !slices.Contains(vip.Able, m.name) {
			continue
		}
		problems := cluster.Nodes[m.node].LinkProblems
		i := slices.IndexFunc(problems, func(l lb.LinkProblem) bool { return l.On == subnet })
		switch {
		case i >= 0:
			reason = problems[i].Reason
		case cluster.Nodes[m.node].ProxyRefuses:
			reason = lb.ProxyUnhealthy
		default:
			return ""
		}
	}
	return reason
}

// nearest are the reasons why a machine does not announce a VIP, of those that come nearest to it
// first. Who is not meant by the pool at all comes last.
var nearest = []lb.Reason{
	lb.SessionLacksFamily, lb.NoSession, lb.PoolLimitedToServices, lb.PoolIsDisabled, lb.VIPOutsidePools, lb.NoLocalEndpoint, lb.EndpointsNotFollowed, lb.NoEndpoint,
	lb.ProxyRulesLost, lb.ProxyUnhealthy, lb.NoSessionUp, lb.NoAgent, lb.WitnessSilent, lb.NoMajority, lb.NoCarrier, lb.NoInterface, lb.CapabilityMissing,
	lb.NodeExcluded, lb.MachineNotActive,
	lb.PoolLimitedToRouters, lb.PoolLimitedToZones, lb.PoolLimitedToRacks,
}

// Nearer compares reasons by how near a machine with each comes to announcing a VIP: negative where a comes nearer.
func Nearer(a, b lb.Reason) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }

func rank(r lb.Reason) int {
	if i := slices.Index(nearest, r); i >= 0 {
		return i
	}
	return len(nearest)
}

// reason returns the reason of the machines that come nearest to announcing a VIP, and those of others.
func (v VIP) reason() (lb.Reason, []lb.Reason) {
	all := slices.SortedFunc(maps.Keys(v.Reasons), Nearer)
	others := slices.Clone(all[1:])
	slices.Sort(others)
	return all[0], others
}
