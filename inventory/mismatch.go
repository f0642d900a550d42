package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

// OutOfServiceTaint marks the Node of a machine that has no power: Kubernetes deletes its pods
// without confirmation by their kubelet, and detaches its volumes (KEP-2268). People set it, or
// programs that have seen to the power.
const OutOfServiceTaint = "node.kubernetes.io/out-of-service"

// ReplacedError means that a Node has a provider ID that Plinth gave, and the inventory has
// another machine in its place, or none.
type ReplacedError struct {
	Node NodeIdentity
	Now  Machine // without a name: no machine
}

// Error describes the mismatch and its remedy.
func (e *ReplacedError) Error() string {
	node := cmp.Or(e.Node.Name, "NAME")
	if e.Now.Name == "" {
		return fmt.Sprintf("its provider ID %s is of no machine of the inventory; if that machine is gone, run: kubectl delete node %s", e.Node.ProviderID, node)
	}
	return fmt.Sprintf("it has the provider ID %s, and machine %s is %s now; a provider ID never changes: "+
		"if another machine is in its place, drain the Node if pods run there, run: kubectl delete node %s, and restart the kubelet there; if not, set id: %s in the inventory",
		e.Node.ProviderID, e.Now.Name, e.Now.ProviderID(), node, strings.TrimPrefix(e.Node.ProviderID, ProviderScheme+"://"))
}

// Identify is [Inventory.MachineOf], but for a Node with a provider ID that Plinth gave:
// no name and no systemUUID overrules that. A machine in the place of another does not
// inherit the other's Node, and the answer is a [ReplacedError].
func (inv *Inventory) Identify(identity NodeIdentity) (Machine, error) {
	machine, err := inv.MachineOf(identity)
	ours := identity.isNamedByPlinth()
	switch {
	case ours && errors.Is(err, ErrNoMachine):
		namesake, _ := inv.Machine(identity.Name)
		return Machine{}, &ReplacedError{Node: identity, Now: namesake}
	case err != nil:
		return Machine{}, err
	case ours && identity.ProviderID != machine.ProviderID() && !slices.Contains(machine.Aliases, identity.ProviderID):
		return Machine{}, &ReplacedError{Node: identity, Now: machine}
	}
	return machine, nil
}

// NodeState is the state of a machine as its Node shows it.
type NodeState struct {
	NodeIdentity
	Ready        bool
	OutOfService bool           // it bears OutOfServiceTaint
	Volumes      int            // that are attached to it
	NodeIPs      string         // what its kubelet was given as --node-ip, a comma list; empty: nothing
	PodCIDRs     []netip.Prefix // those of its spec
}

// Equal reports whether a Node shows the same.
func (n NodeState) Equal(o NodeState) bool {
	return reflect.DeepEqual(n, o)
}

// WhyNoMachine returns the reason of an error of [Inventory.Identify], or of a caller that finds that two Nodes are one machine.
func WhyNoMachine(err error) MismatchReason {
	var replaced *ReplacedError
	switch {
	case errors.Is(err, ErrNoMachine):
		return NoMachine
	case errors.As(err, &replaced):
		return OtherMachine
	}
	return Ambiguous
}

// Mismatch is one such way, with the next step.
type Mismatch struct {
	Reason  MismatchReason
	Message string
}

// Mismatches returns the differences between a machine's Node and its entry in the inventory.
func (m Machine) Mismatches(state NodeState) (out []Mismatch) {
	add := func(reason MismatchReason, format string, args ...any) {
		out = append(out, Mismatch{reason, fmt.Sprintf(format, args...)})
	}
	switch {
	case m.State == StateRetired && state.Ready:
		add(Unexpected, "machine %s is retired, and the kubelet of its Node is ready: stop the kubelet, and the Node is deleted", m.Name)
		return out
	case m.State == StateRetired:
		return nil // it is to go
	}
	out = append(m.boardMismatches(state), m.powerMismatches(state)...)
	if m.State == StatePlanned {
		if !m.Held { // else nobody mentions it, which is another matter
			add(Unexpected, "machine %s is planned, and should have no Node: set state: active when it may join", m.Name)
		}
		return out
	}
	if known := slices.Concat(m.Addresses, m.ExternalAddresses); !allKnown(state.NodeIPs, known) {
		add(NodeIPUnknown, "the kubelet runs with --node-ip=%s, the inventory gives machine %s the addresses %s", state.NodeIPs, m.Name, strings.Join(Strings(known), ","))
	}
	if len(state.PodCIDRs) > 0 && len(m.PodCIDRs) > 0 && !sameCIDRs(state.PodCIDRs, m.PodCIDRs) {
		add(PodCIDRDiffer, "it has the pod CIDRs %v, the inventory gives machine %s %v; a Node's pod CIDRs never change", state.PodCIDRs, m.Name, m.PodCIDRs)
	}
	return out
}

// boardMismatches returns the mismatches of the board by which the inventory knows the machine.
func (m Machine) boardMismatches(state NodeState) (out []Mismatch) {
	if m.SystemUUID.IsZero() {
		return nil
	}
	if uuid := state.SystemUUID; uuid != m.SystemUUID && !uuid.IsZero() {
		out = append(out, Mismatch{SystemUUIDDiffers, fmt.Sprintf("it reports systemUUID %s, and the inventory has %s for machine %s: if its board was replaced, %s; "+
			"if another machine is in its place, write its id, too, then run: kubectl delete node %s, and restart the kubelet there", uuid, m.SystemUUID, m.Name, uuid.advice(), state.Name)})
	}
	if state.Ready && state.UUIDShared && state.SystemUUID == m.SystemUUID {
		out = append(out, Mismatch{SystemUUIDShared, fmt.Sprintf("other Nodes report systemUUID %s, too, by which the inventory is to tell machine %s: a number that several boards have decides nothing; take match from the machine",
			m.SystemUUID, m.Name)})
	}
	return out
}

// powerMismatches say where the inventory, the kubelet and the taint do not agree whether a machine has power.
func (m Machine) powerMismatches(state NodeState) []Mismatch {
	only := func(reason MismatchReason, format string, args ...any) []Mismatch {
		return []Mismatch{{reason, fmt.Sprintf(format, args...)}}
	}
	taint := OutOfServiceTaint + "=nodeshutdown:NoExecute"
	switch off := m.State == StateOff; {
	case state.Ready && off:
		return only(StillOff, "its kubelet is ready, and the inventory says that machine %s is off, so nothing is announced there: set state: active if it is back", m.Name)
	case state.Ready && state.OutOfService:
		return only(StillOutOfService, "its kubelet is ready, and the taint %s keeps all pods away: if the machine is back, run: kubectl taint nodes %s %s-", OutOfServiceTaint, state.Name, OutOfServiceTaint)
	case !off && state.OutOfService:
		return only(NotKnownToBeOff, "it has the taint %s, by which its volumes are used elsewhere, and the inventory does not say that machine %s is off: "+
			"if it still runs, two write to one volume; see that it has no power, and set state: off", OutOfServiceTaint, m.Name)
	case !state.Ready && off && state.Volumes > 0 && !state.OutOfService:
		return only(VolumesStayAttached, "machine %s is off, and what is attached to it can be used nowhere else (volumes: %d): "+
			"if it surely has no power, and is to stay off, run: kubectl taint nodes %s %s", m.Name, state.Volumes, state.Name, taint)
	}
	return nil
}

// sameCIDRs reports whether two lists have the same, in whatever order.
func sameCIDRs(a, b []netip.Prefix) bool {
	inOrder := func(all []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(all), netip.Prefix.Compare)
	}
	return slices.Equal(inOrder(a), inOrder(b))
}

// allKnown reports whether all of a comma list of addresses are known; an empty list has none.
func allKnown(given string, known []netip.Addr) bool {
	for s := range strings.SplitSeq(given, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(s))
		if given != "" && (err != nil || !slices.Contains(known, a.Unmap())) {
			return false
		}
	}
	return true
}
