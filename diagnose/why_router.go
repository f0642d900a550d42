package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// WhyRouter follows a router from the machines that are to have a session with it to what they
// announce to it.
func WhyRouter(seen Observed, name string, answers map[string]Answer) Chain {
	chain := &builder{chain: Chain{What: "router/" + name}}
	chain.link("inventory", func() Link {
		if seen.Inventory == nil {
			return inventoryLink(seen)
		}
		r, there := seen.Inventory.Router(name)
		if !there {
			return broken(noReason, "plinth explain routers", "it has no router of that name")
		}
		return ok("%s, %s, port %d", joinAddrs(r.Addresses), r.ASN, r.Port)
	})
	var nodes []Node
	chain.link("machines", func() (l Link) {
		l, nodes = peersLink(seen, name)
		return l
	})
	chain.link("fabric", func() Link { return fabricsLink(nodes) })
	chain.link("sessions", func() Link {
		ask := askedOf(nodes)
		if answers == nil {
			chain.chain.Ask = ask
			return Link{Mark: LinkUnknown, Text: "no agent was asked"}
		}
		return routerSessionsLink(name, ask, answers)
	})
	chain.link("announced", func() Link {
		if answers == nil {
			return Link{Mark: LinkUnknown, Text: "no agent was asked"}
		}
		return routerAnnouncedLink(name, askedOf(nodes), answers)
	})
	return chain.chain
}

// peersLink returns the Nodes of machines that the inventory gives a session with a router.
func peersLink(seen Observed, router string) (Link, []Node) {
	known := match(seen).nodes
	var nodes []Node
	active, absent := 0, 0
	for machine := range seen.Inventory.Machines() {
		peers := slices.ContainsFunc(seen.Inventory.Sessions(machine), func(s inventory.Session) bool { return s.Router == router })
		if !peers || machine.State != inventory.StateActive {
			continue
		}
		active++
		if n, has := known[machine.Name]; has {
			nodes = append(nodes, n)
		} else {
			absent++
		}
	}
	switch {
	case active == 0:
		return broken(lb.NoSession, "name it among the peers of a rack whose machines have an address of its family", "no active machine has a session with it"), nil
	case absent == active:
		return broken(reasonMachineWithoutNode, "start their kubelets", "%s to have a session with it, and none has a Node", counted(active, "machine is", "machines are")), nil
	case absent > 0:
		return Link{Mark: LinkDegraded, Text: fmt.Sprintf("%d of %d that are to have a session with it have a Node", active-absent, active)}, nodes
	}
	return ok("%s to have a session with it", counted(active, "machine is", "machines are")), nodes
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// fabricsLink returns the link on the conditions of agents, whichever of their routers these are about.
func fabricsLink(nodes []Node) Link {
	var not []string
	for _, n := range nodes {
		if !n.Fabric.isTrue() {
			not = append(not, fmt.Sprintf("%s: %s", n.Name, cmp.Or(n.Fabric.Message, "no agent has said anything")))
		}
	}
	if len(not) > 0 {
		return Link{Mark: LinkDegraded, Reason: lb.FabricDegraded, Text: fmt.Sprintf("of %s %d are ready; %s", countOf(len(nodes), "fabric"), len(nodes)-len(not), someOf(not))}
	}
	return ok("%s ready", counted(len(nodes), "fabric is", "fabrics are"))
}

// askedOf are the Nodes whose agents are asked of a router: those first that are not well.
func askedOf(nodes []Node) (names []string) {
	for _, well := range []bool{false, true} {
		for _, n := range nodes {
			if n.Fabric.isTrue() == well {
				names = append(names, n.Name)
			}
		}
	}
	return names[:min(len(names), mostAsked)]
}

// sessionsWith are an agent's sessions with a router.
func (a Agent) sessionsWith(router string) []AgentSession {
	return slices.DeleteFunc(slices.Clone(a.Sessions), func(s AgentSession) bool { return s.Router != router })
}

func routerSessionsLink(router string, ask []string, answers map[string]Answer) Link {
	up, cause, unasked := 0, "", ""
	var down, silent []string
	for _, node := range ask {
		answer := answerOf(answers, node)
		if err := answer.Err; err != "" {
			silent, unasked = append(silent, node+": "+err), answer.Help
			continue
		}
		sessions := answer.Agent.sessionsWith(router)
		if len(sessions) == 0 {
			down = append(down, node+": its agent has no session with it yet")
		}
		for _, s := range sessions {
			if s.Up {
				up++
				continue
			}
			down, cause = append(down, node+": "+s.down()), s.Cause
		}
	}
	text := fmt.Sprintf("of %s asked: %s up", countOf(len(ask), "agent"), countOf(up, "session"))
	if len(down) > 0 {
		text += "; " + someOf(down)
	}
	if len(silent) > 0 {
		text += "; " + someOf(silent)
	}
	help := ""
	if cause != "" {
		help = "plinth explain " + cause
	}
	switch {
	case up == 0 && len(down) > 0:
		return Link{Mark: LinkBroken, Reason: cause, Text: text, Help: help}
	case up == 0:
		return Link{Mark: LinkUnknown, Text: text, Help: unasked}
	case len(down) > 0:
		return Link{Mark: LinkDegraded, Reason: cause, Text: text, Help: help}
	}
	return ok("%s", text)
}

// routerAnnouncedLink counts the prefixes that agents announce to a router, and those that they keep back from it.
func routerAnnouncedLink(router string, ask []string, answers map[string]Answer) Link {
	announced, kept, help := 0, "", ""
	heard := 0
	for _, node := range ask {
		answer := answerOf(answers, node)
		if answer.Err != "" {
			help = answer.Help
			continue
		}
		heard++
		for _, s := range answer.Agent.sessionsWith(router) {
			announced += len(s.Announced)
			for _, r := range s.Refusals {
				kept = fmt.Sprintf("%s: %s is kept back: %s: %s", node, r.Prefix, r.Reason, r.Detail)
			}
		}
	}
	if kept != "" {
		return Link{Mark: LinkDegraded, Text: kept}
	}
	if heard == 0 && len(ask) > 0 {
		return Link{Mark: LinkUnknown, Text: "none of " + countOf(len(ask), "agent") + " could be asked", Help: help}
	}
	if announced == 0 {
		return Link{Mark: LinkDegraded, Text: "nothing is announced to it by those that were asked", Help: "plinth status vips says which VIPs are to be announced"}
	}
	return Link{Mark: LinkOK, Text: counted(announced, "prefix is", "prefixes are") + " in the adj-RIB-outs of those that were asked", Help: "the router's side: plinth router-config " + router + " prints what it needs"}
}
