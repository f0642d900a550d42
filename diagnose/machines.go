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
	c := counterparts{nodes: map[string]Node{}, judged: map[string]bool{}}
	odd := func(n Node, err error) {
		c.judged["node "+n.Name] = true
		c.odd = append(c.odd, noMachine(n, err))
	}
	for _, n := range seen.Nodes {
		m, err := seen.Inventory.MachineOf(n.NodeIdentity)
		if err != nil {
			_, err = seen.Inventory.Identify(n.NodeIdentity) // it may be that of a machine that is gone
			odd(n, err)
			continue
		}
		other, twice := c.nodes[m.Name]
		if !twice || n.Name == m.Name {
			c.nodes[m.Name], n = n, other
		}
		if twice {
			odd(n, fmt.Errorf("machine %s is node %s already", m.Name, c.nodes[m.Name].Name))
		}
	}
	for machine, n := range c.nodes {
		if odd := misfits(seen.Inventory, n); len(odd) > 0 {
			c.judged["node "+n.Name], c.judged["machine "+machine] = true, true // the other end of the same
			c.odd = append(c.odd, odd...)
		}
	}
	slices.SortFunc(c.odd, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message)) })
	return c
}

// misfits say in what a Node does not fit the machine that it seems to be, and what to do.
func misfits(inv *inventory.Inventory, n Node) (out []Finding) {
	m, err := inv.Identify(n.NodeIdentity)
	if err != nil {
		return []Finding{noMachine(n, err)}
	}
	for _, mismatch := range m.Mismatches(n.NodeState) {
		out = append(out, Finding{Kind: KindNode, Name: n.Name, Reason: string(mismatch.Reason), Message: mismatch.Message})
	}
	return out
}

// noMachine tells of a Node that is no machine.
func noMachine(n Node, err error) Finding {
	return Finding{Kind: KindNode, Name: n.Name, Reason: string(inventory.WhyNoMachine(err)), Message: err.Error()}
}

// machineFindings look at every machine that is to have a Node, and at Nodes that fit none.
func machineFindings(seen Observed) (racks []Rack, out []Finding) {
	c := match(seen)
	racks = []Rack{}
	for _, rack := range seen.Inventory.Racks {
		r := Rack{Name: rack.Name}
		for _, m := range rack.Machines {
			if inactive(m.State) {
				r.OutOfService++
			}
			switch {
			case m.State == inventory.StateActive || m.State == inventory.StateMaintenance:
				n, has := c.nodes[m.Name]
				c.judged["machine "+m.Name] = c.judged["machine "+m.Name] || !has
				r.count(n)
				out = append(out, oneMachine(m, n, has)...)
			case m.Held:
				out = append(out, held(m))
			}
		}
		racks = append(racks, r)
	}
	return racks, slices.Concat(out, c.odd, c.unmatched(seen))
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
func oneMachine(m inventory.Machine, n Node, has bool) (out []Finding) {
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
	if !n.Kubelet.isTrue() {
		say(string(NodeNotReady), "Node %s is not ready: %s", n.Name, cmp.Or(n.Kubelet.Message, "nobody has said so"))
	}
	if silent := n.agentSilent(); silent > 0 {
		say(string(AgentSilent), "its agent has said nothing for %s longer than its kubelet: what it said before may be old", silent.Round(time.Minute))
	}
	switch c := n.Fabric; {
	case !c.isTrue():
		say(cmp.Or(c.Reason, string(AgentMissing)), "its fabric is not ready: %s", cmp.Or(c.Message, "no agent has said so"))
	case c.Reason == lb.FabricOutdated:
		say(c.Reason, "its agent is of an older version than what is stored: %s", c.Message)
	default:
		if more := n.report().Besides(); more != "" {
			say(n.reasonBesides(), "its agent says: %s", more)
		}
	}
	return out
}

// held tells of a machine that nobody mentions any more.
func held(m inventory.Machine) Finding {
	return Finding{
		Kind: KindMachine, Name: m.Name, Of: m.Rack, Reason: string(MachineHeld),
		Message: "is not in the inventory any more, and is held as it was: set its state to retired if it is gone",
	}
}

// report is what the Node's agent says.
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
	switch r := n.report(); {
	case r.RulesLost.Gone > 0:
		return string(lb.ProxyRulesLost)
	case len(r.Links) > 0:
		return string(r.Links[0].Reason)
	case len(r.Passwords) > 0:
		return string(PasswordNotTaken)
	case len(r.Settings) > 0 || r.MoreSettings > 0:
		return string(KernelSettings)
	}
	return n.Fabric.Reason
}

// unmatched adds what the controller says has no counterpart, and is not told yet. Its word is
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

// whyUnmatched is why the controller does not care for a Node whose machine seems to be known.
func whyUnmatched(inv *inventory.Inventory, n Node) error {
	if _, err := inv.Identify(n.NodeIdentity); err != nil {
		return err
	}
	return errors.New("the controller knows no machine that it is: its Events say why")
}
