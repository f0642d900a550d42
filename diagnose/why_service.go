package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/preview"
)

// WhyService follows a Service from its class to the routers that are told of its VIPs. Without answers
// the chain ends where agents have to be asked, and says which.
func WhyService(seen Observed, key lb.ServiceKey, answers map[string]Answer) Chain {
	chain := &builder{chain: Chain{What: "svc/" + key.String()}}
	service, there := seen.service(key)
	vips := seen.vipsOf(key)
	chain.link("inventory", func() Link { return inventoryLink(seen) })
	chain.link("Service", func() Link { return classLink(service, there) })
	chain.link("pool", func() Link { return allocatedLink(service, vips) })
	chain.link("address", func() Link { return claimLink(seen, service, vips) })
	chain.link("status", func() Link { return shownLink(service, vips) })
	chain.announcement(seen, vips, answers)
	return chain.chain
}

// WhyVIP follows an address from the pool that has it to the routers that are told of it.
func WhyVIP(seen Observed, vip netip.Addr, answers map[string]Answer) Chain {
	chain := &builder{chain: Chain{What: "vip/" + vip.String()}}
	var by []lb.ServiceKey
	for _, s := range seen.Cluster.Services {
		if slices.Contains(s.VIPs, vip) {
			by = append(by, s.Key)
		}
	}
	chain.link("inventory", func() Link { return inventoryLink(seen) })
	chain.link("address", func() Link { return holderLink(seen, vip, by) })
	chain.link("status", func() Link {
		for _, key := range by {
			s, _ := seen.service(key)
			if l := shownLink(s, []netip.Addr{vip}); l.Mark != LinkOK {
				return l
			}
		}
		return ok("shown by %s", holders(by))
	})
	chain.announcement(seen, []netip.Addr{vip}, answers)
	return chain.chain
}

func inventoryLink(seen Observed) Link {
	if seen.Inventory == nil {
		return broken(NoInventory, "plinth status says what is wrong with the inventory, or with the controller", "no inventory is in force")
	}
	if !seen.Planned {
		return Link{Mark: LinkBroken, Text: strings.Join(seen.NotKnown, "; "), Help: "docs/guides/troubleshooting.md has the rights that this takes"}
	}
	if seen.Unreadable != "" {
		return Link{Mark: LinkDegraded, Text: seen.Unreadable, Help: "docs/reference/in-force.md says what is in force meanwhile"}
	}
	return ok("%s, generation %s, is in force", seen.Inventory.Name, cmp.Or(seen.Edit.Generation, "unknown"))
}

func classLink(service Service, there bool) Link {
	switch {
	case !there:
		return broken(noReason, "kubectl get services -A shows the type of each", "there is no such Service of type LoadBalancer")
	case !service.ours():
		return broken(noReason, "leave loadBalancerClass out, or make it "+lb.LoadBalancerClass+"; it cannot be changed later", "its class is %s: another program answers it", service.Class)
	case service.Proxy == lb.NoProxy:
		return Link{Mark: LinkDegraded, Reason: string(service.Proxy.Reason()), Text: leftAlone(service.Proxy), Help: "take the label off: it is for EndpointSlices"}
	case service.Proxy != lb.KubeProxy:
		return Link{Mark: LinkDegraded, Reason: string(service.Proxy.Reason()), Text: leftAlone(service.Proxy), Help: "take the label off, or look whether that program serves it"}
	case service.Class == "":
		return ok("of type LoadBalancer, without a class")
	}
	return ok("of type LoadBalancer, class %s", service.Class)
}

// allocatedLink is the controller's word on whether a pool lets the Service in.
func allocatedLink(service Service, vips []netip.Addr) Link {
	switch {
	case service.Allocated.isTrue():
		return ok("%s", cmp.Or(service.Allocated.Message, "the controller gave what it asks for"))
	case service.Allocated.Status != "" && len(vips) > 0:
		return Link{Mark: LinkDegraded, Reason: service.Allocated.Reason, Text: fmt.Sprintf("it holds %s; %s", joinAddrs(vips), service.Allocated.Message), Help: "plinth explain " + service.Allocated.Reason}
	case service.Allocated.Status != "":
		return broken(service.Allocated.Reason, "plinth explain "+service.Allocated.Reason, "%s", service.Allocated.Message)
	case len(vips) > 0:
		return ok("it holds %s", joinAddrs(vips))
	}
	return broken(ServiceUnanswered, "plinth status says whether the controller runs; one with --load-balancer-class-only leaves Services without a class alone", "nobody has answered it")
}

func claimLink(seen Observed, s Service, vips []netip.Addr) Link {
	if len(vips) > 0 {
		return ok("the IPAddress of %s names it", joinAddrs(vips))
	}
	for _, a := range s.Shown {
		if slices.Contains(seen.Claimed, a) {
			return broken(lb.StatusNotHeld, "plinth why vip/"+a.String()+" says who holds it", "its status shows %v, and no IPAddress names this Service", a)
		}
	}
	return broken(lb.StatusNotHeld, "plinth explain StatusNotHeld", "no IPAddress object names it: it holds no address")
}

func holderLink(seen Observed, vip netip.Addr, by []lb.ServiceKey) Link {
	pool, within := seen.Inventory.PoolOf(vip)
	where := "no pool has it"
	if within {
		where = "of pool " + pool.Name
	}
	switch {
	case len(by) > 0:
		return ok("%s, held by %s", where, holders(by))
	case slices.Contains(seen.Claimed, vip):
		return broken(noReason, "kubectl get ipaddress "+vip.String()+" -o yaml names it", "%s; its IPAddress names a Service that is gone, is another one by now, or is not Plinth's", where)
	case within:
		return broken(noReason, "a Service gets it that asks for it with plinth.dev/ips", "%s, and nobody holds it", where)
	}
	return broken(lb.VIPOutsidePools, "plinth status pools lists what pools have", "%s, and nobody holds it", where)
}

// shownLink compares the VIPs that a Service holds with those in its status: kube-proxy serves the latter.
func shownLink(s Service, vips []netip.Addr) Link {
	for _, a := range vips {
		if !slices.Contains(s.Shown, a) {
			return broken(noReason, "the controller writes it within seconds: plinth status says whether it runs", "the status of %s does not show %v: kube-proxy serves what it shows", s.Key, a)
		}
	}
	return ok("shows %s", joinAddrs(vips))
}

// announcement adds the links on the announcement of some addresses of a Service.
func (b *builder) announcement(seen Observed, vips []netip.Addr, answers map[string]Answer) {
	b.link("plan", func() Link { return planLink(seen, vips) })
	b.link("endpoints", func() Link {
		if u, none := nobodyFor(seen, withSessions(seen.Cluster), vips); none {
			return broken(u.Reason, endpointsHelp(u.Reason), "%v", u)
		}
		return ok("can take traffic")
	})
	routed, onLinks := byWay(seen, vips)
	if len(routed) > 0 || len(vips) == 0 {
		b.telling(seen, routed, answers)
	}
	if len(onLinks) > 0 {
		b.answering(seen, onLinks, answers)
	}
}

// endpointsHelp returns the command that shows the endpoints which lack.
func endpointsHelp(reason lb.Reason) string {
	if reason == lb.EndpointsNotFollowed {
		return "take " + lb.HeadlessLabel + " and " + lb.ServiceProxyLabel + " off them: kubectl get endpointslices --show-labels"
	}
	return "kubectl get endpointslices shows which endpoints are ready, and on which Nodes"
}

// telling adds the links on the machines that announce some addresses to routers.
func (b *builder) telling(seen Observed, vips []netip.Addr, answers map[string]Answer) {
	var serving []string
	b.link("machines", func() (l Link) {
		l, serving, vips = machinesLink(seen, vips)
		return l
	})
	b.link("announced", func() Link {
		nodes := nodesNamed(seen, serving)
		if answers == nil {
			b.chain.Ask = nodes
			return Link{Mark: LinkUnknown, Text: "no agent was asked"}
		}
		return announcedLink(vips, nodes, answers)
	})
}

// nobodyFor is the first of some addresses that nobody announces.
func nobodyFor(seen Observed, c preview.Cluster, vips []netip.Addr) (preview.Unannounced, bool) {
	return inventory.Find(preview.UnannouncedOf(seen.Inventory, c), func(u preview.Unannounced) bool {
		return slices.Contains(vips, u.Addr) && !preview.Disputes(u.Reason)
	})
}

// announcedBy returns the machines and routers by which some addresses are to be announced, by plan.
func announcedBy(seen Observed, c preview.Cluster, vips []netip.Addr) (machines, routers []string) {
	p := preview.Of(seen.Inventory, c, preview.Failures{})
	for _, a := range vips {
		v, _ := p.VIP(a)
		for _, by := range v.By {
			machines, routers = append(machines, by.Machine), append(routers, by.Router)
		}
	}
	return inventory.SortedOnce(machines), inventory.SortedOnce(routers)
}

// planLink asks the planner who would announce the addresses if their Services had endpoints
// everywhere.
func planLink(seen Observed, vips []netip.Addr) Link {
	everywhere := servedEverywhere(withSessions(seen.Cluster))
	if u, none := nobodyFor(seen, everywhere, vips); none {
		return broken(u.Reason, "plinth explain "+string(u.Reason), "no machine would announce %v", u)
	}
	machines, routers := announcedBy(seen, everywhere, vips)
	if routed, _ := byWay(seen, vips); len(routed) == 0 {
		return ok("%s is the first to answer for it, on the %s", someOf(machines), someOf(routers))
	}
	return ok("%s may announce it, to %s", countOf(len(machines), "machine"), someOf(routers))
}

// withSessions is a cluster whose machines all have an agent with its sessions, and a kube-proxy with its rules.
func withSessions(cluster preview.Cluster) preview.Cluster {
	cluster.Nodes = maps.Clone(cluster.Nodes)
	for name, n := range cluster.Nodes {
		n.NoSession, n.NoAgent, n.ProxyRefuses, n.NoRules, n.Down = false, false, false, false, nil
		cluster.Nodes[name] = n
	}
	return cluster
}

// servedEverywhere is a cluster whose Services all have endpoints, wherever they are looked for.
func servedEverywhere(cluster preview.Cluster) preview.Cluster {
	cluster.Services = slices.Clone(cluster.Services)
	some := advertise.Spread{Ready: map[string]int{"": 1}}
	for i := range cluster.Services {
		cluster.Services[i].LocalTraffic, cluster.Services[i].Endpoints = false, map[lb.Family]advertise.Spread{lb.IPv4: some, lb.IPv6: some}
	}
	return cluster
}

// machinesLink looks at the machines that are to announce: their Nodes, and what their agents say of
// themselves. It returns those that serve some of the addresses, those of each address in turn, and the addresses that some machine serves.
func machinesLink(seen Observed, vips []netip.Addr) (link Link, some []string, served []netip.Addr) {
	var all, not []string
	var byVIP [][]string
	var none, unsure Link // of addresses that no machine serves; of one that is not heard of it is not known
	for i, of := range servings(seen, vips) {
		if len(of.by) > 0 {
			served = append(served, vips[i])
		}
		all, byVIP = append(all, of.by...), append(byVIP, of.by)
		for _, failed := range of.not {
			all, not = append(all, failed.machine), append(not, failed.String())
		}
		if len(of.by) == 0 && len(of.not) > 0 {
			unsure = of.broken()
			if !of.unheard {
				none = cmp.Or(none, unsure)
			}
		}
	}
	some = inTurn(byVIP)
	all, not = inventory.SortedOnce(all), inventory.SortedOnce(not)
	switch {
	case none.Mark != "":
		return none, nil, nil
	case len(some) == 0:
		return unsure, nil, nil
	case len(not) > 0:
		return Link{Mark: LinkDegraded, Text: fmt.Sprintf("%d of %d can announce it; %s", len(some), len(all), someOf(not)), Help: "plinth why node/NAME, for each"}, some, served
	}
	return ok("%s %s a session with a router: %s", countOf(len(some), "machine"), has(len(some)), someOf(some)), some, served
}

// serving is who serves an address of those that are to announce it.
type serving struct {
	by      []string // machines, sorted
	not     []notServed
	unheard bool // of one that does not nothing is heard, so that it may
}

// notServed is a machine that does not serve an address, and why.
type notServed struct {
	machine, node, why string
	reason             lb.Reason
}

// String is the machine with the reason.
func (n notServed) String() string { return n.machine + ": " + n.why }

// broken is the link of an address that no machine serves.
func (s serving) broken() Link {
	var reason lb.Reason
	var text []string
	for _, n := range s.not {
		reason, text = nearer(n.reason, reason), append(text, n.String())
	}
	return broken(reason, "plinth why node/"+s.not[0].node, "%s", someOf(text))
}

// servings are who serves each of some addresses.
func servings(seen Observed, vips []netip.Addr) (all []serving) {
	plan, ruleless, nodes := preview.Of(seen.Inventory, seen.Cluster, preview.Failures{}), seen.Cluster.Ruleless(), match(seen).nodes
	for _, vip := range vips {
		planned, _ := plan.VIP(vip)
		sessionless := plan.Sessionless(seen.Cluster, vip)
		var of serving
		for _, name := range planned.Machines() {
			why, reason := notServing(nodes[name], !ruleless[vip])
			if why == "" && slices.Contains(sessionless, name) {
				why, reason = fmt.Sprintf("each of its sessions that carry %v is down", vip), lb.NoSessionUp
			}
			if why == "" {
				of.by = append(of.by, name)
				continue
			}
			of.not = append(of.not, notServed{name, nodes[name].Name, why, reason})
			of.unheard = of.unheard || nodes[name].Kubelet.Status == "Unknown"
		}
		all = append(all, of)
	}
	return all
}

// inTurn returns the first of each list, then the second ones, and so on, each once.
func inTurn(lists [][]string) (all []string) {
	for i, left := 0, true; left; i++ {
		left = false
		for _, list := range lists {
			if i < len(list) {
				left = true
				if !slices.Contains(all, list[i]) {
					all = append(all, list[i])
				}
			}
		}
	}
	return all
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// notServing returns the reason for which a machine's Node does not announce what it is to, be it that kube-proxy serves it by its rules,
// and the name of that reason, if it has one; empty: it does, or may.
func notServing(node Node, byRules bool) (why string, reason lb.Reason) {
	switch {
	case node.Name == "":
		return "it has no Node", noReason
	case node.Kubelet.Status == "Unknown":
		return "its kubelet is not heard of", noReason
	case node.Fabric.Status == "":
		return "no agent has ever said anything", lb.NoAgent
	case node.Fabric.Status == "False" && node.report().NoSessionIsUp():
		return node.report().String(), lb.NoSessionUp
	}
	if node.report().ProxyRefuses {
		return lb.ProxyRefusal, lb.ProxyUnhealthy
	}
	if byRules && node.report().RulesLost.All() {
		return "kube-proxy's rules are gone", lb.ProxyRulesLost
	}
	return "", noReason
}

// nodesNamed are the Nodes of machines, as many as are asked for one chain.
func nodesNamed(seen Observed, machines []string) (out []string) {
	nodes := match(seen).nodes
	for _, m := range machines[:min(len(machines), mostAsked)] {
		out = append(out, nodes[m].Name)
	}
	return out
}

// announcedLink looks into the adj-RIB-outs of agents that were asked.
func announcedLink(vips []netip.Addr, nodes []string, answers map[string]Answer) Link {
	var told, not, silent []string
	unasked := ""
	for _, node := range nodes {
		answer := answerOf(answers, node)
		switch why := notAnnounced(answer.Agent, vips); {
		case answer.Err != "":
			silent, unasked = append(silent, node+": "+answer.Err), answer.Help
		case why != "":
			not = append(not, node+": "+why)
		default:
			told = append(told, node)
		}
	}
	text := fmt.Sprintf("of %s asked, %d %s it in the adj-RIB-out of a session", countOf(len(nodes), "agent"), len(told), has(len(told)))
	if len(told) > 0 {
		text += ": " + someOf(told)
	}
	for _, rest := range [][]string{not, silent} {
		if len(rest) > 0 {
			text += "; " + someOf(rest)
		}
	}
	untold := slices.ContainsFunc(vips, func(vip netip.Addr) bool {
		return !slices.ContainsFunc(nodes, func(node string) bool { return answerOf(answers, node).Agent.tells(vip) })
	})
	help := "the router's side: plinth router-config prints what it needs, and docs/guides/routers.md how to look"
	switch {
	case untold && len(silent) > 0:
		return Link{Mark: LinkUnknown, Text: text, Help: unasked}
	case untold && len(not) > 0:
		return Link{Mark: LinkBroken, Text: text, Help: "plinth explain has each reason"}
	case len(not) > 0:
		return Link{Mark: LinkDegraded, Text: text}
	}
	return Link{Mark: LinkOK, Text: text, Help: help}
}

// notAnnounced returns the reason for which an agent announces one of the addresses to nobody; empty: it announces all.
func notAnnounced(agent Agent, vips []netip.Addr) string {
	for _, vip := range vips {
		if agent.tells(vip) {
			continue
		}
		for _, r := range agent.Refusals {
			if r.VIP == vip.String() {
				return r.VIP + ": " + r.Reason
			}
		}
		for _, s := range agent.Sessions {
			if !s.Up {
				return s.down()
			}
		}
		if !agent.Ready {
			return "it waits for " + agent.WaitingFor
		}
		return vip.String() + " is in no adj-RIB-out"
	}
	return ""
}

func (o Observed) service(key lb.ServiceKey) (Service, bool) {
	i := slices.IndexFunc(o.Services, func(s Service) bool { return s.Key == key })
	if i < 0 {
		return Service{Key: key}, false
	}
	return o.Services[i], true
}

// vipsOf are the addresses that a Service holds.
func (o Observed) vipsOf(key lb.ServiceKey) []netip.Addr {
	for _, s := range o.Cluster.Services {
		if s.Key == key {
			return s.VIPs
		}
	}
	return nil
}

func joinAddrs(all []netip.Addr) string {
	return strings.Join(inventory.Strings(all), ", ")
}
