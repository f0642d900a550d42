package diagnose

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Rack counts the machines of a rack whose Nodes are to be there.
type Rack struct {
	Name        string `json:"name"`
	Machines    int    `json:"machines"`
	NodesReady  int    `json:"nodesReady"`
	FabricReady int    `json:"fabricReady"`
	// OutOfService counts machines in maintenance, whose Nodes are to be there, and those
	// that are off.
	OutOfService int `json:"outOfService"`
}

// counterparts are machines and the Nodes that they are.
type counterparts struct {
	nodes  map[string]Node // by machine
	odd    []Finding       // Nodes that are no machine, or do not fit it
	judged map[string]bool // "node NAME" and "machine NAME" that have a finding
}

// match brings machines and Nodes together. Of several Nodes of one machine that of its name counts, or else the first.
func match(seen Observed) counterparts {
	matched := counterparts{nodes: map[string]Node{}, judged: map[string]bool{}}
	odd := func(n Node, err error) {
		matched.judged["node "+n.Name] = true
		matched.odd = append(matched.odd, noMachine(n, err))
	}
	for _, node := range seen.Nodes {
		own, err := seen.Inventory.MachineOf(node.NodeIdentity)
		if err != nil {
			_, err = seen.Inventory.Identify(node.NodeIdentity) // it may be that of a machine that is gone
			odd(node, err)
			continue
		}
		other, twice := matched.nodes[own.Name]
		if !twice || node.Name == own.Name {
			matched.nodes[own.Name], node = node, other
		}
		if twice {
			odd(node, fmt.Errorf("machine %s is node %s already", own.Name, matched.nodes[own.Name].Name))
		}
	}
	for machine, n := range matched.nodes {
		if odd := misfits(seen.Inventory, n); len(odd) > 0 {
			matched.judged["node "+n.Name], matched.judged["machine "+machine] = true, true // the other end of the same
			matched.odd = append(matched.odd, odd...)
		}
	}
	slices.SortFunc(matched.odd, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message)) })
	return matched
}

// misfits returns findings on the ways in which a Node does not fit the machine that it seems to be, with the next steps.
func misfits(inv *inventory.Inventory, node Node) (out []Finding) {
	m, err := inv.Identify(node.NodeIdentity)
	if err != nil {
		return []Finding{noMachine(node, err)}
	}
	for _, mismatch := range m.Mismatches(node.NodeState) {
		out = append(out, Finding{Kind: KindNode, Name: node.Name, Reason: string(mismatch.Reason), Message: mismatch.Message})
	}
	return out
}

// noMachine returns the finding on a Node that is no machine.
func noMachine(n Node, err error) Finding {
	return Finding{Kind: KindNode, Name: n.Name, Reason: string(inventory.WhyNoMachine(err)), Message: err.Error()}
}

// machineFindings look at every machine that is to have a Node, and at Nodes that fit none.
func machineFindings(seen Observed) (racks []Rack, out []Finding) {
	counterparts := match(seen)
	racks = []Rack{}
	for _, rack := range seen.Inventory.Racks {
		own := Rack{Name: rack.Name}
		for _, machine := range rack.Machines {
			if inactive(machine.State) {
				own.OutOfService++
			}
			switch {
			case machine.State == inventory.StateActive || machine.State == inventory.StateMaintenance:
				n, has := counterparts.nodes[machine.Name]
				counterparts.judged["machine "+machine.Name] = counterparts.judged["machine "+machine.Name] || !has
				own.count(n)
				out = append(out, oneMachine(machine, n, has)...)
			case machine.Held:
				out = append(out, held(machine))
			}
		}
		racks = append(racks, own)
	}
	return racks, slices.Concat(out, counterparts.odd, counterparts.unmatched(seen))
}

func (r *Rack) count(n Node) {
	r.Machines++
	if n.Kubelet.isTrue() {
		r.NodesReady++
	}
	if n.Fabric.isTrue() {
		r.FabricReady++
	}
}

// oneMachine looks at one machine that is to have a Node.
func oneMachine(m inventory.Machine, node Node, has bool) (out []Finding) {
	say := func(reason, format string, args ...any) {
		out = append(out, Finding{Kind: KindMachine, Name: m.Name, Of: m.Rack, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	if m.Held {
		out = append(out, held(m))
	}
	if !has {
		say(reasonMachineWithoutNode, "has no Node")
		return out
	}
	if !node.Kubelet.isTrue() {
		say(string(NodeNotReady), "Node %s is not ready: %s", node.Name, cmp.Or(node.Kubelet.Message, "nobody has said so"))
	}
	if silent := node.agentSilent(); silent > 0 {
		say(string(AgentSilent), "its agent has said nothing for %s longer than its kubelet: what it said before may be old", silent.Round(time.Minute))
	}
	switch c := node.Fabric; {
	case !c.isTrue():
		say(cmp.Or(c.Reason, string(AgentMissing)), "its fabric is not ready: %s", cmp.Or(c.Message, "no agent has said so"))
	case c.Reason == lb.FabricOutdated:
		say(c.Reason, "its agent is of an older version than what is stored: %s", c.Message)
	default:
		if more := node.report().Besides(); more != "" {
			say(node.reasonBesides(), "its agent says: %s", more)
		}
	}
	return out
}

// held returns the finding on a machine that is held, since the inventory has it no more.
func held(m inventory.Machine) Finding {
	return Finding{
		Kind: KindMachine, Name: m.Name, Of: m.Rack, Reason: string(MachineHeld),
		Message: "is not in the inventory any more, and is held as it was: set its state to retired if it is gone",
	}
}

// report returns the report of the Node's agent, from the message of its condition.
func (n Node) report() lb.Report { return lb.ParseReport(n.Fabric.Message) }

// agentSilentAfter is how much later than its agent a machine's kubelet may have been heard. Both say every five minutes
// at least that they are there.
const agentSilentAfter = 12 * time.Minute

// agentSilent is how much longer ago an agent was heard than its kubelet, if that is too long. Both go by the clock of
// their machine.
func (n Node) agentSilent() time.Duration {
	if n.Fabric.Heard.IsZero() || !n.Kubelet.isTrue() {
		return 0
	}
	if silent := n.Kubelet.Heard.Sub(n.Fabric.Heard); silent >= agentSilentAfter {
		return silent
	}
	return 0
}

// reasonBesides is the reason of what an agent says besides its sessions and routes.
func (n Node) reasonBesides() string {
	switch report := n.report(); {
	case report.ProxyRefuses:
		return string(lb.ProxyUnhealthy)
	case report.RulesLost.Gone > 0:
		return string(lb.ProxyRulesLost)
	case len(report.Links) > 0:
		return string(report.Links[0].Reason)
	case len(report.Withheld) > 0:
		return string(report.Withheld[0].Reason)
	case len(report.Passwords) > 0:
		return string(PasswordNotTaken)
	case len(report.Settings) > 0 || report.MoreSettings > 0:
		return string(KernelSettings)
	}
	return n.Fabric.Reason
}

// unmatched adds the Nodes and machines without counterpart that the controller reports and no other finding does. Its report is
// some seconds old: a Node that has its machine's provider ID has it from the controller.
func (c counterparts) unmatched(seen Observed) (out []Finding) {
	for _, n := range seen.Nodes {
		if m, err := seen.Inventory.Identify(n.NodeIdentity); err == nil && n.ProviderID == m.ProviderID() {
			c.judged["node "+n.Name], c.judged["machine "+m.Name] = true, true
		}
	}
	for _, name := range seen.Edit.NodesWithoutMachine {
		n, ok := seen.node(name)
		if !ok || c.judged["node "+name] {
			continue
		}
		out = append(out, noMachine(n, whyUnmatched(seen.Inventory, n)))
		if m, err := seen.Inventory.MachineOf(n.NodeIdentity); err == nil {
			c.judged["machine "+m.Name] = true // the other end of the same
		}
	}
	for _, name := range seen.Edit.MachinesWithoutNode {
		if m, ok := seen.Inventory.Machine(name); ok && !c.judged["machine "+name] {
			out = append(out, Finding{Kind: KindMachine, Name: name, Of: m.Rack, Reason: reasonMachineWithoutNode, Message: "the controller knows no Node of it"})
		}
	}
	return out
}

// whyUnmatched returns the error for which the controller does not care for a Node whose machine seems to be known.
func whyUnmatched(inv *inventory.Inventory, n Node) error {
	if _, err := inv.Identify(n.NodeIdentity); err != nil {
		return err
	}
	return errors.New("the controller knows no machine that it is: its Events say why")
}
