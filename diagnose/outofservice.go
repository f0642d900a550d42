package diagnose

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// OutOfService is a rack, machine, Node, pool or inventory that somebody took out of service on purpose. It is reported, and is no problem.
type OutOfService struct {
	Kind   string     `json:"kind"` // rack, machine, node, pool or inventory
	Name   string     `json:"name"`
	Rack   string     `json:"rack,omitempty"` // of a machine
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"` // as the inventory says
	Since  *time.Time `json:"since,omitempty"`  // nil: not known
}

// String prints it for an operator.
func (o OutOfService) String() string {
	text := o.Kind + " " + o.Name
	if o.Rack != "" {
		text += " (" + o.Rack + ")"
	}
	text += ": " + o.State
	if o.Since != nil {
		text += " since " + o.Since.UTC().Format(time.RFC3339)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// inactive reports whether a machine in that state is out of service on purpose, and not for ever.
func inactive(s inventory.State) bool {
	return s == inventory.StateMaintenance || s == inventory.StateOff
}

// outOfService lists the things that are out of service on purpose.
func outOfService(seen Observed) []OutOfService {
	out := []OutOfService{}
	if seen.Inventory.Safety.Paused {
		out = append(out, OutOfService{Kind: KindInventory, Name: seen.Inventory.Name, State: "paused", Reason: "safety.paused keeps what is in force, whatever is edited"})
	}
	nodes := match(seen).nodes
	for _, rack := range seen.Inventory.Racks {
		out = append(out, outOfServiceIn(rack, nodes)...)
	}
	for _, n := range seen.Nodes {
		if n.Excluded {
			out = append(out, OutOfService{Kind: KindNode, Name: n.Name, State: "announces no VIP", Reason: "it bears the label node.kubernetes.io/exclude-from-external-load-balancers"})
		}
	}
	for _, p := range seen.Inventory.Pools {
		if p.State != inventory.PoolActive {
			out = append(out, OutOfService{Kind: KindPool, Name: p.Name, State: string(p.State)})
		}
	}
	return out
}

// outOfServiceIn names the rack where its state says it all, and machines that are otherwise or
// have a reason of their own.
func outOfServiceIn(rack inventory.Rack, nodes map[string]Node) (out []OutOfService) {
	if inactive(rack.State) {
		out = append(out, OutOfService{Kind: "rack", Name: rack.Name, State: string(rack.State), Reason: "with " + countOf(len(rack.Machines), "machine")})
	}
	for _, m := range rack.Machines {
		if inactive(m.State) && (m.State != rack.State || m.Reason != "") {
			out = append(out, OutOfService{Kind: KindMachine, Name: m.Name, Rack: rack.Name, State: string(m.State), Reason: m.Reason, Since: since(m, nodes[m.Name])})
		}
	}
	return out
}

// since is when a machine went out of service: in maintenance, when its Node got the taint; off,
// when its kubelet was last heard of. nil: not known.
func since(m inventory.Machine, n Node) *time.Time {
	at := n.Tainted
	if m.State == inventory.StateOff {
		at = time.Time{}
		if n.Name != "" && !n.Kubelet.isTrue() {
			at = n.Kubelet.Since
		}
	}
	if at.IsZero() {
		return nil
	}
	return &at
}
