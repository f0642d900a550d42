package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
)

// WhyNode follows a Node from the machine that it is to what its agent has reached.
func WhyNode(seen Observed, name string, answers map[string]Answer) Chain {
	chain := &builder{chain: Chain{What: "node/" + name}}
	node, there := seen.node(name)
	chain.link("inventory", func() Link {
		if seen.Inventory == nil || seen.Unreadable != "" {
			return inventoryLink(seen)
		}
		return ok("%s is in force", seen.Inventory.Name)
	})
	chain.link("Node", func() Link { return nodeLink(seen, name, there) })
	var machine inventory.Machine
	chain.link("machine", func() (l Link) {
		l, machine = machineLink(seen, node)
		return l
	})
	chain.link("state", func() Link { return stateLink(machine, node) })
	chain.link("kubelet", func() Link {
		if !node.Kubelet.isTrue() {
			return broken(NodeNotReady, "kubectl describe node "+name, "%s", cmp.Or(node.Kubelet.Message, "nobody has said that it is ready"))
		}
		return ok("ready")
	})
	chain.link("agent", func() Link {
		if len(seen.Agents) == 0 {
			return chain.programLink(node, answers)
		}
		return agentLink(seen, node)
	})
	chain.link("fabric", func() Link { return fabricLink(seen, machine, node) })
	chain.asked(name, answers, "sessions", sessionsLink)
	if seen.Inventory != nil && len(seen.Inventory.LinksOf(machine.Name)) > 0 {
		chain.asked(name, answers, "links", linksLink)
	}
	chain.asked(name, answers, "routes", routesLink)
	chain.asked(name, answers, "kernel", settingsLink)
	return chain.chain
}

func nodeLink(seen Observed, name string, there bool) Link {
	if there {
		return ok("there is one of that name")
	}
	if m, is := seen.Inventory.Machine(name); is {
		return broken(reasonMachineWithoutNode, "start its kubelet, or set state: planned until then", "machine %s (%s) has no Node", name, m.Rack)
	}
	return broken(noReason, "kubectl get nodes", "there is no Node of that name, and no machine")
}

// machineLink is whether it can be told which machine a Node is, and whether it fits.
func machineLink(seen Observed, node Node) (Link, inventory.Machine) {
	machine, err := seen.Inventory.Identify(node.NodeIdentity)
	if err != nil {
		return broken(inventory.WhyNoMachine(err), "docs/guides/replace-a-machine.md", "%v", err), machine
	}
	for _, other := range seen.Nodes {
		if o, err := seen.Inventory.Identify(other.NodeIdentity); err == nil && o.Name == machine.Name && other.Name != node.Name {
			return broken(inventory.Ambiguous, "delete the Node that it is not", "machine %s is claimed by the Nodes %s and %s", machine.Name, node.Name, other.Name), machine
		}
	}
	if all := machine.Mismatches(node.NodeState); len(all) > 0 {
		mismatch := all[0]
		l := broken(mismatch.Reason, "plinth explain "+string(mismatch.Reason), "%s", mismatch.Message)
		if mismatch.Reason == inventory.NodeIPUnknown || mismatch.Reason == inventory.PodCIDRDiffer {
			l.Mark = LinkDegraded // a Node that was initialised before serves as ever
		}
		return l, machine
	}
	if machine.Held {
		return broken(MachineHeld, "write it into the inventory again, or set state: retired", "machine %s is not in the inventory any more, and is held as it was", machine.Name), machine
	}
	return ok("%s of rack %s", machine.Name, machine.Rack), machine
}

func stateLink(machine inventory.Machine, node Node) Link {
	if machine.State == inventory.StateActive {
		if node.Excluded {
			return Link{Mark: LinkDegraded, Reason: "NodeExcluded", Text: "active, and announces no VIP: the Node bears the label node.kubernetes.io/exclude-from-external-load-balancers", Help: "take the label off"}
		}
		return ok("active")
	}
	text := string(machine.State)
	if at := since(machine, node); at != nil {
		text += " since " + at.UTC().Format("2006-01-02T15:04:05Z")
	}
	if machine.Reason != "" {
		text += ": " + machine.Reason
	}
	return broken("MachineNotActive", "set state: active, in its rack as well, when it may carry traffic", "%s", text)
}

// programLink asks the agent whether it is there: where none has a pod they run as programs of their machines.
func (b *builder) programLink(n Node, answers map[string]Answer) Link {
	if answers == nil {
		b.chain.Ask = []string{n.Name}
		return Link{Mark: LinkUnknown, Text: "agents have no pods here, and it was not asked"}
	}
	if answer := answerOf(answers, n.Name); answer.Err != "" {
		return Link{Mark: LinkUnknown, Text: answer.Err, Help: answer.Help}
	}
	return ok("it answers; agents have no pods here")
}

// agentLink looks at the pod of the agent.
func agentLink(seen Observed, n Node) Link {
	i := slices.IndexFunc(seen.Agents, func(p Pod) bool { return p.Node == n.Name })
	switch {
	case i < 0:
		return broken(AgentMissing, "kubectl describe daemonset plinth-agent, in Plinth's namespace", "no pod of the agent is on this Node")
	case seen.Agents[i].Pending != "":
		return broken(AgentNotRunning, "kubectl describe pod "+seen.Agents[i].Name, "pod %s does not run: %s", seen.Agents[i].Name, seen.Agents[i].Pending)
	}
	return ok("pod %s runs %s", seen.Agents[i].Name, seen.Agents[i].Image)
}

func fabricLink(seen Observed, m inventory.Machine, node Node) Link {
	switch {
	case len(seen.Inventory.Sessions(m))+len(seen.Inventory.LinksOf(m.Name)) == 0:
		return broken("NoSession", "give its rack a router among peers, and the machine an address of the router's family", "the inventory gives it no session with any router")
	case node.Fabric.Status == "":
		return broken(AgentMissing, "the log of its agent", "its agent has never said anything")
	case node.agentSilent() > 0:
		return broken(AgentSilent, "does it run? its log says what it waits for", "its agent has said nothing for %s longer than its kubelet", node.agentSilent().Round(time.Minute))
	case !node.Fabric.isTrue():
		return Link{Mark: LinkDegraded, Reason: node.Fabric.Reason, Text: node.Fabric.Message, Help: "plinth explain " + node.Fabric.Reason}
	}
	if more := node.report().Besides(); more != "" {
		l := Link{Mark: LinkDegraded, Text: more, Help: "docs/reference/agent.md says what an agent tells of"}
		if reason := node.reasonBesides(); reason != node.Fabric.Reason {
			l.Reason, l.Help = reason, "plinth explain "+reason
		}
		return l
	}
	return ok("%s: %s", node.Fabric.Reason, node.Fabric.Message)
}

// asked adds a link that the agent of a Node has to be asked for.
func (b *builder) asked(node string, answers map[string]Answer, step string, judge func(Agent) Link) {
	b.link(step, func() Link {
		answer, has := answers[node]
		switch {
		case !has:
			b.chain.Ask = []string{node}
			return Link{Mark: LinkUnknown, Text: "no agent was asked"}
		case answer.Err != "":
			return Link{Mark: LinkUnknown, Text: answer.Err, Help: answer.Help}
		}
		return judge(answer.Agent)
	})
}

func sessionsLink(agent Agent) Link {
	if !agent.Ready {
		return broken(noReason, "it waits for that; its log says more", "the agent waits for %s", agent.WaitingFor)
	}
	var down []AgentSession
	var text []string
	for _, s := range agent.Sessions {
		if !s.Up {
			down, text = append(down, s), append(text, s.down())
		}
	}
	switch {
	case len(down) == len(agent.Sessions) && len(down) > 0:
		return broken(down[0].Cause, "plinth explain "+down[0].Cause, "%s", someOf(text))
	case len(down) > 0:
		return Link{Mark: LinkDegraded, Reason: down[0].Cause, Text: fmt.Sprintf("%d of %d are up; %s", len(agent.Sessions)-len(down), len(agent.Sessions), someOf(text)), Help: "plinth explain " + down[0].Cause}
	}
	return ok("%s up", countOf(len(agent.Sessions), "session"))
}

func routesLink(agent Agent) Link {
	if agent.Routes.Held == agent.Routes.Wanted && len(agent.Unrouted) == 0 {
		return ok("%d of %d in the kernel", agent.Routes.Held, agent.Routes.Wanted)
	}
	why := slices.Clone(agent.Routes.Failed)
	for _, r := range agent.Unrouted {
		why = append(why, fmt.Sprintf("%s of node %s: %s", r.PodCIDR, r.Node, r.Reason))
	}
	return Link{Mark: LinkDegraded, Text: fmt.Sprintf("%d of %d in the kernel; %s", agent.Routes.Held, agent.Routes.Wanted, someOf(why)), Help: "docs/reference/agent.md says what is in the kernel"}
}

func settingsLink(a Agent) Link {
	if len(a.Settings) == 0 {
		return ok("no setting keeps packets from pods")
	}
	return Link{Mark: LinkDegraded, Reason: string(KernelSettings), Text: strings.Join(a.Settings, "; "), Help: "docs/reference/agent.md, \"Kernel settings\""}
}
