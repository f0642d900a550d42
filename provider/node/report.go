package node

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/nodeindex"
)

// Reasons of Events on Nodes, besides [inventory.MismatchReasons] and [lb.PoolTakesAddress].
const (
	reasonPodCIDRInUse = "PodCIDRInUse" // another Node has the pod CIDRs that this one should get

	reasonMaintenance = "MachineInMaintenance" // by the inventory; the message has its reason
	reasonOff         = "MachineOff"           // the same
	reasonInService   = "MachineInService"     // again
)

// Report records the problems of a Node, once for each thing, and clears those that it has no
// more. machine and err are the results of [nodeindex.Index.MachineOf] for it.
func (c *Controller) Report(node *v1.Node, machine inventory.Machine, err error) {
	found := faults(c.options.Index.State(node), machine, err)
	for _, r := range inventory.MismatchReasons {
		reason := string(r)
		if message, there := found[reason]; there {
			c.warn(node, reason, message)
		} else {
			c.cluster.Reports.Clear(node, reason)
		}
	}
	c.reportTaken(node)
	if err == nil {
		c.noteState(node, machine)
	}
}

// reportTaken records that pools have addresses of a Node, be it a machine of the inventory or not: it joined after they were made.
func (c *Controller) reportTaken(node *v1.Node) {
	var in []string
	for _, a := range inPools(c.options.InForce.Get(), node) {
		in = append(in, fmt.Sprintf("pool %s has %v of %s", a.Pool, a.Of, a.Who))
	}
	if len(in) == 0 {
		c.cluster.Reports.Clear(node, string(lb.PoolTakesAddress))
		return
	}
	c.warn(node, string(lb.PoolTakesAddress), strings.Join(in, ", ")+": no VIP is given from there, and those that were given stay. Take that out of the pool, or put it into its exclude")
}

// noteState records that the inventory has taken a machine out of service, and why, and that it is
// in service again.
func (c *Controller) noteState(node *v1.Node, machine inventory.Machine) {
	why, over := "", false
	if machine.Reason != "" {
		why = ": " + machine.Reason
	}
	for _, out := range []struct {
		state         inventory.State
		reason, words string
	}{{inventory.StateMaintenance, reasonMaintenance, "in maintenance"}, {inventory.StateOff, reasonOff, "off"}} {
		if machine.State == out.state {
			c.note(node, out.reason, "machine "+machine.Name+" is "+out.words+why)
		} else {
			over = c.cluster.Reports.Clear(node, out.reason) || over
		}
	}
	if over && machine.State == inventory.StateActive {
		c.cluster.Recorder.Event(node, v1.EventTypeNormal, reasonInService, "machine "+machine.Name+" is in service again")
	}
}

// warn reports a problem of a Node. Of one that went meanwhile nothing is remembered:
// nobody would clear it any more.
func (c *Controller) warn(node *v1.Node, reason, message string) {
	c.cluster.Reports.Warn(node, reason, message)
	c.forgetGone(node)
}

// note records an Event on a Node that is no problem.
func (c *Controller) note(node *v1.Node, reason, message string) {
	c.cluster.Reports.Note(node, reason, message)
	c.forgetGone(node)
}

// forgetGone forgets the reports on a Node that went meanwhile.
func (c *Controller) forgetGone(node *v1.Node) {
	if cached, err := c.nodes.Get(node.Name); err != nil || cached.UID != node.UID {
		c.cluster.Reports.Forget(node.UID)
	}
}

// faults returns the problems of a Node, each with the next step, by reason.
func faults(node inventory.NodeState, machine inventory.Machine, err error) map[string]string {
	found := map[string]string{}
	switch {
	case errors.Is(err, nodeindex.ErrNoInventory): // there is none to have a machine
	case err != nil:
		found[string(inventory.WhyNoMachine(err))] = err.Error()
	default:
		for _, mismatch := range machine.Mismatches(node) {
			found[string(mismatch.Reason)] = fmt.Sprintf("node %s: %s", node.Name, mismatch.Message)
		}
	}
	return found
}
