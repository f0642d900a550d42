package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cloud-provider/api"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/routing"
)

// Reasons of Events on Nodes.
const (
	reasonNoMachine     = "NoMachine"       // the inventory has no machine for the Node
	reasonUnexpected    = "Unexpected"      // the machine is planned or retired and should have no Node
	reasonAmbiguous     = "Ambiguous"       // it cannot be told which machine the Node is
	reasonReplaced      = "MachineReplaced" // another machine, or none, is in the place of the Node's
	reasonNodeIPUnknown = "NodeIPUnknown"   // the inventory does not have the kubelet's --node-ip: the stock controller leaves the Node tainted
	reasonPodCIDRInUse  = "PodCIDRInUse"    // another Node has the pod CIDRs that this one should get
	reasonPodCIDRDiffer = "PodCIDRDiffer"   // the Node has other pod CIDRs than the inventory gives its machine

	reasonMaintenance = "MachineInMaintenance" // by the inventory; the message has its reason
	reasonOff         = "MachineOff"           // the same
	reasonInService   = "MachineInService"     // again
)

// Report records what is wrong with a Node, once for each thing, and clears what is wrong no
// more. m and err are what [nodeindex.Index.MachineOf] says of it.
func (c *Controller) Report(node *v1.Node, m inventory.Machine, err error) {
	found := faults(node, m, err)
	reasons := []string{reasonNoMachine, reasonUnexpected, reasonAmbiguous, reasonReplaced, reasonNodeIPUnknown, reasonPodCIDRDiffer}
	for _, r := range inventory.MismatchReasons {
		reasons = append(reasons, string(r))
	}
	for _, reason := range reasons {
		if message, there := found[reason]; there {
			c.warn(node, reason, message)
		} else {
			c.cluster.Reports.Clear(node, reason)
		}
	}
	if err == nil {
		c.noteState(node, m)
	}
}

// noteState records that the inventory has taken a machine out of service, and why, and that it is
// in service again.
func (c *Controller) noteState(node *v1.Node, m inventory.Machine) {
	why, over := "", false
	if m.Reason != "" {
		why = ": " + m.Reason
	}
	for _, out := range []struct {
		state         inventory.State
		reason, words string
	}{{inventory.StateMaintenance, reasonMaintenance, "in maintenance"}, {inventory.StateOff, reasonOff, "off"}} {
		if m.State == out.state {
			c.note(node, out.reason, "machine "+m.Name+" is "+out.words+why)
		} else {
			over = c.cluster.Reports.Clear(node, out.reason) || over
		}
	}
	if over && m.State == inventory.StateActive {
		c.cluster.Recorder.Event(node, v1.EventTypeNormal, reasonInService, "machine "+m.Name+" is in service again")
	}
}

// warn reports what is wrong with a Node. Of one that went meanwhile nothing is remembered:
// nobody would clear it any more.
func (c *Controller) warn(node *v1.Node, reason, message string) {
	c.cluster.Reports.Warn(node, reason, message)
	c.forgetGone(node)
}

// note records what is no fault of a Node.
func (c *Controller) note(node *v1.Node, reason, message string) {
	c.cluster.Reports.Note(node, reason, message)
	c.forgetGone(node)
}

// forgetGone forgets what was said of a Node that went meanwhile.
func (c *Controller) forgetGone(node *v1.Node) {
	if cached, err := c.nodes.Get(node.Name); err != nil || cached.UID != node.UID {
		c.cluster.Reports.Forget(node.UID)
	}
}

// faults returns what is wrong with a Node, and the next step, by reason.
func faults(node *v1.Node, m inventory.Machine, err error) map[string]string {
	if err != nil {
		return map[string]string{reasonOf(err): err.Error()}
	}
	found := map[string]string{}
	for _, mismatch := range m.Mismatches(nodeindex.State(node)) {
		found[string(mismatch.Reason)] = fmt.Sprintf("node %s: %s", node.Name, mismatch.Message)
	}
	if err := nodeindex.Expected(m); err != nil {
		found[reasonUnexpected] = err.Error()
		return found
	}
	known := slices.Concat(m.Addresses, m.ExternalAddresses)
	if given := node.Annotations[api.AnnotationAlphaProvidedIPAddr]; !allKnown(given, known) {
		found[reasonNodeIPUnknown] = fmt.Sprintf("the kubelet runs with --node-ip=%s, the inventory gives machine %s the addresses %s", given, m.Name, listed(known))
	}
	if has := routing.ParsePodCIDRs(node.Spec.PodCIDRs); len(has) > 0 && len(m.PodCIDRs) > 0 && !slices.Equal(has, m.PodCIDRs) {
		found[reasonPodCIDRDiffer] = fmt.Sprintf("the node has the pod CIDRs %v, the inventory gives machine %s %v; a node's pod CIDRs never change", has, m.Name, m.PodCIDRs)
	}
	return found
}

// reasonOf is why a Node has no machine; empty where there is no inventory to have one.
func reasonOf(err error) string {
	var replaced *inventory.ReplacedError
	switch {
	case errors.Is(err, nodeindex.ErrNoInventory):
		return ""
	case errors.Is(err, inventory.ErrNoMachine):
		return reasonNoMachine
	case errors.As(err, &replaced):
		return reasonReplaced
	}
	return reasonAmbiguous
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

func listed(addrs []netip.Addr) string {
	var all []string
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return strings.Join(all, ",")
}
