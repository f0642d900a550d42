package diagnose

import (
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// AgentLink is a subnet on which an agent's machine answers for VIPs.
type AgentLink struct {
	Subnet    string         `json:"subnet"`
	Interface string         `json:"interface"`
	Reason    string         `json:"reason"`
	Detail    string         `json:"detail"`
	Quorum    string         `json:"quorum"`
	Witness   string         `json:"witness"`
	Leaving   string         `json:"leaving"`
	VIPs      []AgentLinkVIP `json:"vips"`
}

// AgentLinkVIP is a VIP of such a link.
type AgentLinkVIP struct {
	VIP      string `json:"vip"`
	Owner    string `json:"owner"`
	Answers  bool   `json:"answers"`
	Reason   string `json:"reason"`
	Conflict string `json:"conflict"`
}

// onLink returns the state of a VIP on a link by an agent's report; false: the agent knows of none.
func (a Agent) onLink(vip netip.Addr) (AgentLinkVIP, bool) {
	for _, l := range a.Links {
		for _, v := range l.VIPs {
			if v.VIP == vip.String() {
				return v, true
			}
		}
	}
	return AgentLinkVIP{}, false
}

// byWay parts addresses that are announced over BGP from those on links.
func byWay(seen Observed, vips []netip.Addr) (routed, onLinks []netip.Addr) {
	for _, addr := range vips {
		if seen.Inventory != nil {
			if _, on := seen.Inventory.LinkSubnet(addr); on {
				onLinks = append(onLinks, addr)
				continue
			}
		}
		routed = append(routed, addr)
	}
	return routed, onLinks
}

// answering adds the machines of links that are to answer, and do answer, for some addresses.
func (b *builder) answering(seen Observed, vips []netip.Addr, answers map[string]Answer) {
	var able []string
	b.link("on the link", func() (l Link) {
		l, able = ableLink(seen, vips)
		return l
	})
	b.link("answered", func() Link {
		if l := disputedLink(seen, vips); l.Mark != "" {
			return l
		}
		nodes := nodesNamed(seen, able)
		if answers == nil {
			b.chain.Ask = inventory.SortedOnce(append(b.chain.Ask, nodes...))
			return Link{Mark: LinkUnknown, Text: "no agent was asked"}
		}
		return answeredLink(vips, nodes, len(able), answers)
	})
}

// disputedLink returns the link on addresses that, by the agents' reports to the API server, not their owners alone have; without a
// mark: there are none.
func disputedLink(seen Observed, vips []netip.Addr) Link {
	for _, u := range preview.UnannouncedOf(seen.Inventory, seen.Cluster) {
		if slices.Contains(vips, u.Addr) && preview.Disputes(u.Reason) {
			return Link{Mark: LinkDegraded, Reason: string(u.Reason), Text: u.Addr.String() + ": " + whatOf(u) + whyOf(u), Help: "plinth explain " + string(u.Reason)}
		}
	}
	return Link{}
}

// ableLink looks at the machines that can answer for the addresses, and at what their agents say of
// themselves. It returns those that do.
func ableLink(seen Observed, vips []netip.Addr) (Link, []string) {
	p := preview.Of(seen.Inventory, seen.Cluster, preview.Failures{})
	nodes := match(seen).nodes
	var able, not []string
	var reason lb.Reason
	for _, a := range vips {
		v, _ := p.VIP(a)
		subnet, _ := seen.Inventory.LinkSubnet(a)
		for _, name := range v.Able {
			if why, because := notOnLink(nodes[name], subnet); why != "" {
				not, reason = append(not, name+": "+why), nearer(because, reason)
			} else {
				able = append(able, name)
			}
		}
	}
	able, not = inventory.SortedOnce(able), inventory.SortedOnce(not)
	switch {
	case len(able) == 0:
		return broken(reason, "plinth why node/NAME, for each", "no machine answers; %s", someOf(not)), nil
	case len(not) > 0:
		return Link{Mark: LinkDegraded, Text: fmt.Sprintf("%s can answer for it: %s; %s", countOf(len(able), "machine"), someOf(able), someOf(not)), Help: "plinth why node/NAME, for each"}, able
	}
	return ok("%s can answer for it: %s", countOf(len(able), "machine"), someOf(able)), able
}

// notOnLink returns the reason for which a machine's Node answers for nothing on a subnet; empty: it does, or may.
func notOnLink(node Node, subnet netip.Prefix) (why string, reason lb.Reason) {
	switch {
	case node.Name == "":
		return "it has no Node", noReason
	case node.Kubelet.Status == "Unknown":
		return "its kubelet is not heard of", noReason
	case node.Fabric.Status == "":
		return "no agent has ever said anything", lb.NoAgent
	}
	for _, p := range node.report().Links {
		if p.On == subnet.String() {
			return p.String(), p.Reason
		}
	}
	if node.report().ProxyRefuses {
		return lb.ProxyRefusal, lb.ProxyUnhealthy
	}
	return "", noReason
}

// answeredLink returns the link on the machines that answer for each address, of the agents that were asked. Of those that could be
// asked, of which there are able, some may not have been.
func answeredLink(vips []netip.Addr, nodes []string, able int, answers map[string]Answer) Link {
	worst := Link{Mark: LinkOK}
	var text, silent []string
	help := ""
	for _, node := range nodes {
		if answer := answerOf(answers, node); answer.Err != "" {
			silent, help = append(silent, node+": "+answer.Err), answer.Help
		}
	}
	for _, vip := range vips {
		by, not, conflict := answerersOf(vip, nodes, answers)
		switch {
		case len(by) == 1 && conflict == "":
			text = append(text, fmt.Sprintf("%s answers for %v", by[0], vip))
			continue
		case conflict != "":
			worst = Link{Mark: LinkDegraded, Reason: string(lb.AddressConflict)}
			text = append(text, fmt.Sprintf("%v: %s has it as well", vip, conflict))
		case len(by) > 1:
			worst = Link{Mark: LinkDegraded, Reason: string(lb.AnsweredByOther)}
			text = append(text, fmt.Sprintf("%s say that they answer for %v", someOf(by), vip))
		case len(silent) > 0 || len(nodes) < able:
			worst.Mark = LinkUnknown
			text = append(text, fmt.Sprintf("of %s asked none answers for %v", countOf(len(nodes)-len(silent), "agent"), vip))
		default:
			worst = Link{Mark: LinkBroken, Reason: string(lb.NotOwner)}
			text = append(text, fmt.Sprintf("nobody answers for %v: %s", vip, someOf(not)))
		}
	}
	worst.Text = someOf(append(text, silent...))
	switch worst.Mark {
	case LinkOK:
		worst.Help = "the other side: arping or ndisc6 from a host of the subnet shows the MAC"
	case LinkUnknown:
		worst.Help = help
	default:
		worst.Help = "plinth explain has each reason"
	}
	return worst
}

// answerersOf are the Nodes whose agents say that they answer for an address, why others do not, and the
// MAC of a foreign host that has it as well.
func answerersOf(vip netip.Addr, nodes []string, answers map[string]Answer) (by, not []string, conflict string) {
	for _, node := range nodes {
		answer := answerOf(answers, node)
		if answer.Err != "" {
			continue
		}
		agentLinkVIP, known := answer.Agent.onLink(vip)
		switch {
		case agentLinkVIP.Answers:
			by = append(by, node)
		case known:
			not = append(not, node+": "+agentLinkVIP.Reason)
		case !answer.Agent.Ready:
			not = append(not, node+": it waits for "+answer.Agent.WaitingFor)
		default:
			not = append(not, node+": it knows nothing of it")
		}
		if agentLinkVIP.Conflict != "" {
			conflict = agentLinkVIP.Conflict
		}
	}
	return by, not, conflict
}

// linksLink returns the link on the links of a Node's machine.
func linksLink(a Agent) Link {
	var well, not []string
	var reason string
	for _, link := range a.Links {
		switch {
		case link.Reason != "":
			reason = link.Reason
			not = append(not, link.Subnet+": "+link.Reason+detailOf(link.Detail))
		case link.Quorum == "none" && link.Leaving == "":
			reason = string(lb.NoMajority)
			if link.Witness == "silent" {
				reason = string(lb.WitnessSilent)
			}
			not = append(not, link.Subnet+": "+reason)
		default:
			well = append(well, link.Subnet+": "+link.Quorum)
		}
	}
	switch {
	case len(not) == 0 && len(well) == 0:
		return broken(noReason, "it waits for that; its log says more", "the agent knows of no link")
	case len(not) > 0:
		return Link{Mark: LinkDegraded, Reason: reason, Text: someOf(append(not, well...)), Help: "plinth explain " + reason}
	}
	return ok("%s", someOf(well))
}

func detailOf(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
