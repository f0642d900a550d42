package node

import (
	"fmt"
	"maps"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/nodeindex"
)

// desired is all that the inventory wants of a Node.
type desired struct {
	labels     map[string]string
	taints     []inventory.Taint
	providerID string         // for a Node that has none
	podCIDRs   []netip.Prefix // for a Node that has none; at most one per family

	formerly map[string]bool // taints that are or were wanted of it, as spelled prints them
}

// desiredOf returns the desired state of a Node by the inventory; ok is false where the inventory desires nothing of it.
func (c *Controller) desiredOf(node *v1.Node) (d desired, ok bool) {
	inv, machine, err := c.options.Index.MachineOf(node)
	c.Report(node, machine, err)
	if err != nil || machine.State == inventory.StateRetired || initialising(node) && nodeindex.Expected(machine) != nil {
		return desired{}, false
	}
	return desired{
		labels: inv.Labels(machine), taints: machine.NodeTaints(), providerID: machine.ProviderID(), podCIDRs: c.freePodCIDRs(node, machine), formerly: c.wanted.of(machine),
	}, true
}

// freePodCIDRs returns the pod CIDRs that a Node without any should get. Blocks
// that another Node has, by whatever hand, are reported and not given again.
func (c *Controller) freePodCIDRs(node *v1.Node, machine inventory.Machine) []netip.Prefix {
	if len(node.Spec.PodCIDRs) > 0 {
		return nil // they never change
	}
	if holder, taken := c.options.Index.PodCIDRHolder(machine.PodCIDRs, node.Name); taken {
		c.warn(node, reasonPodCIDRInUse, fmt.Sprintf("node %s has pod CIDRs that overlap %v; if its machine is gone, run: kubectl delete node %s", holder, machine.PodCIDRs, holder))
		return nil
	}
	c.cluster.Reports.Clear(node, reasonPodCIDRInUse)
	return machine.PodCIDRs
}

// patch returns the patch that makes a Node as desired; ok is false where it is
// so already.
func (d desired) patch(node *v1.Node) (patch nodePatch, ok bool, err error) {
	had, err := ownedOf(node)
	if err != nil {
		return nodePatch{}, false, err
	}
	taints, ours := mergeTaints(node.Spec.Taints, recordedOn(node, d.formerly), d.taints)
	labels := map[string]string{}
	maps.Copy(labels, d.labels)
	maps.Copy(labels, recordOf(ours)) // last: what is accepted from an older version may have such a label
	retainted := !equalTaints(taints, node.Spec.Taints)
	patch = nodePatch{APIVersion: "v1", Kind: "Node", Metadata: metadataPatch{
		Name: node.Name, UID: string(node.UID), ResourceVersion: node.ResourceVersion, Labels: labels,
	}}
	if retainted || had.taints {
		patch.setTaints(stamped(taints, node.Spec.Taints, metav1.Now()))
	}
	filled := d.fill(&patch.Spec, node, had)
	ok = filled || retainted || !labelled(labels, node, had)
	return patch, ok, nil
}

// fill sets the fields that may be set only once, where the Node lacks them; and repeats
// those that Plinth set earlier, for the API server removes the fields that a patch leaves out.
func (d desired) fill(spec *specPatch, node *v1.Node, had owned) (filled bool) {
	switch {
	case had.providerID:
		spec.ProviderID = node.Spec.ProviderID
	case node.Spec.ProviderID == "" && d.providerID != "":
		spec.ProviderID, filled = d.providerID, true
	}
	switch {
	case had.podCIDRs:
		spec.PodCIDR, spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs
	case node.Spec.PodCIDR == "" && len(d.podCIDRs) > 0:
		spec.PodCIDRs = inventory.Strings(d.podCIDRs)
		spec.PodCIDR, filled = spec.PodCIDRs[0], true
	}
	return filled
}

// labelled reports whether the Node has every label that is desired, and none that Plinth set
// earlier besides.
func labelled(labels map[string]string, node *v1.Node, had owned) bool {
	for k, v := range labels {
		if got, ok := node.Labels[k]; !ok || got != v {
			return false
		}
	}
	for _, k := range had.labels {
		if _, ok := labels[k]; !ok {
			return false
		}
	}
	return true
}
