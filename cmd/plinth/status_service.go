package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// outOfService is what somebody took out of service on purpose. It is told, and is no
// problem.
type outOfService struct {
	Kind   string `json:"kind"` // rack, machine, node or pool
	Name   string `json:"name"`
	Rack   string `json:"rack,omitempty"` // of a machine
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // as the inventory says
}

// String prints it for an operator.
func (o outOfService) String() string {
	text := o.Kind + " " + o.Name
	if o.Rack != "" {
		text += " (" + o.Rack + ")"
	}
	text += ": " + o.State
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// inactive reports whether a machine in that state is out of service on purpose, and not for ever.
func inactive(s inventory.State) bool {
	return s == inventory.StateMaintenance || s == inventory.StateOff
}

// outOfServiceIn lists what is out of service on purpose.
func outOfServiceIn(seen observed) []outOfService {
	out := []outOfService{}
	for _, rack := range seen.inventory.Racks {
		out = append(out, outOfServiceInRack(rack)...)
	}
	for _, n := range seen.nodes {
		if _, excluded := n.Labels[v1.LabelNodeExcludeBalancers]; excluded {
			out = append(out, outOfService{Kind: "node", Name: n.Name, State: "announces no VIP", Reason: "it bears the label " + v1.LabelNodeExcludeBalancers})
		}
	}
	for _, p := range seen.inventory.Pools {
		if p.State != inventory.PoolActive {
			out = append(out, outOfService{Kind: "pool", Name: p.Name, State: string(p.State)})
		}
	}
	return out
}

// outOfServiceInRack names the rack where its state says it all, and machines that are otherwise or
// have a reason of their own.
func outOfServiceInRack(rack inventory.Rack) (out []outOfService) {
	if inactive(rack.State) {
		out = append(out, outOfService{Kind: "rack", Name: rack.Name, State: string(rack.State), Reason: "with " + countOf(len(rack.Machines), "machine")})
	}
	for _, m := range rack.Machines {
		if inactive(m.State) && (m.State != rack.State || m.Reason != "") {
			out = append(out, outOfService{Kind: "machine", Name: m.Name, Rack: rack.Name, State: string(m.State), Reason: m.Reason})
		}
	}
	return out
}

// labelControlPlane is on the Nodes that the controller runs on.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

// checkController looks at the controller's own pods: while none runs, nothing else here is
// kept true. Two of them share no Node.
func (s *status) checkController(pods []v1.Pod, nodes []v1.Node) {
	places := 0
	for _, n := range nodes {
		if _, ok := n.Labels[labelControlPlane]; ok {
			places++
		}
	}
	for _, pod := range pods {
		why := whyPending(pod)
		if why == "" {
			continue
		}
		if pod.Spec.NodeName == "" && places == 1 && len(pods) > 1 {
			why += "; the cluster has one control-plane node: set the replicas of the controller to 1"
		}
		s.notWell("controller: pod %s does not run: %s", pod.Name, why)
	}
}

// whyPending says what a pod waits for; empty where it waits for nothing.
func whyPending(pod v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return strings.TrimSpace("it cannot be scheduled: " + cmp.Or(c.Message, c.Reason))
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(fmt.Sprintf("%s: %s", w.Reason, w.Message), ": ")
		}
	}
	if pod.Status.Phase == v1.PodPending {
		return "it is Pending"
	}
	return ""
}

// checkUnmatched adds what the controller says has no counterpart, and is not told yet. Its
// word is some seconds old: a Node that has its machine's provider ID has it from the controller.
func (s *status) checkUnmatched(seen observed, told map[string]bool) {
	for _, n := range seen.nodes {
		if m, err := seen.inventory.Identify(identityOf(n)); err == nil && n.Spec.ProviderID == m.ProviderID() {
			told["node "+n.Name], told["machine "+m.Name] = true, true
		}
	}
	for _, name := range strings.Fields(seen.taken[source.KeyNodesWithoutMachine]) {
		i := slices.IndexFunc(seen.nodes, func(n v1.Node) bool { return n.Name == name })
		if i < 0 || told["node "+name] {
			continue
		}
		s.notWell("node %s: %s", name, whyUnmatched(seen.inventory, seen.nodes[i]))
		if m, err := seen.inventory.MachineOf(identityOf(seen.nodes[i])); err == nil {
			told["machine "+m.Name] = true // the other end of the same
		}
	}
	for _, name := range strings.Fields(seen.taken[source.KeyMachinesWithoutNode]) {
		if m, ok := seen.inventory.Machine(name); ok && !told["machine "+name] {
			s.notWell("machine %s (%s): the controller knows no Node of it", name, m.Rack)
		}
	}
}

// whyUnmatched is why the controller does not care for a Node whose machine seems to be
// known.
func whyUnmatched(inv *inventory.Inventory, n v1.Node) string {
	if _, err := inv.Identify(identityOf(n)); err != nil {
		return err.Error()
	}
	return "the controller knows no machine that it is: its Events say why"
}

// misfits says in what a Node does not fit the machine that it seems to be, and what to do.
func misfits(inv *inventory.Inventory, n v1.Node) (lines []string) {
	m, err := inv.Identify(identityOf(n))
	if err != nil {
		return []string{fmt.Sprintf("node %s: %v", n.Name, err)}
	}
	for _, mismatch := range m.Mismatches(inventory.NodeState{
		NodeIdentity: identityOf(n), Ready: condition(n, v1.NodeReady).Status == v1.ConditionTrue, Volumes: len(n.Status.VolumesAttached),
		OutOfService: slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == inventory.OutOfServiceTaint }),
	}) {
		lines = append(lines, fmt.Sprintf("node %s: %s", n.Name, mismatch.Message))
	}
	return lines
}

func identityOf(n v1.Node) inventory.NodeIdentity {
	return inventory.NodeIdentity{ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID, Name: n.Name}
}
