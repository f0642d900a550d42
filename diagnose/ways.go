package diagnose

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/routing"
)

// podFindings tell of pods that do not reach each other, by the routes that the agents plan. Nodes that claim one pod CIDR
// have findings of their own, and machines that are out of service carry no pods to be missed.
func podFindings(seen Observed) (out []Finding) {
	crowded := overlapsOf(seen)
	inService := preview.Cluster{Nodes: map[string]preview.Node{}}
	for machine, n := range match(seen).nodes {
		if m, _ := seen.Inventory.Machine(machine); m.State == inventory.StateActive && crowded[n.Name] == "" {
			inService.Nodes[n.Name] = preview.Node{Identity: n.NodeIdentity, PodCIDRs: n.PodCIDRs}
		}
	}
	for _, apart := range preview.Of(seen.Inventory, inService, preview.Failures{}).PodsApart() {
		var racks []string
		for _, pair := range apart.Racks {
			racks = append(racks, pair[0]+" to "+pair[1])
		}
		out = append(out, Finding{
			Kind: KindPods, Of: someOf(racks), Reason: apart.Reason,
			Message: fmt.Sprintf("Plinth plans no way over %s between %s of machines: %s", apart.Family, countOf(apart.Pairs, "pair"), apart.Reason),
		})
	}
	return out
}

// podCIDRFindings tell of Nodes of which one has a pod CIDR of the other's: of one of them no pod is reached.
func podCIDRFindings(seen Observed) (out []Finding) {
	has := podCIDRsOf(seen)
	for node, other := range overlapsOf(seen) {
		is := "has"
		if n, _ := seen.node(node); len(n.PodCIDRs) == 0 {
			is = "gets none of its"
		}
		out = append(out, Finding{
			Kind: KindNode, Name: node, Reason: string(routing.PodCIDRInUse),
			Message: fmt.Sprintf("%s pod CIDRs %v, and one of Node %s overlaps: of one of them pods are not reached", is, has[node], other),
		})
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// overlapsOf are the Nodes of which one has, or is to get, a pod CIDR of another's, where Plinth routes pods.
func overlapsOf(seen Observed) map[string]string {
	if seen.Inventory.PodNetwork.Mode == inventory.ModeNone {
		return nil
	}
	return routing.Overlaps(podCIDRsOf(seen))
}

// podCIDRsOf are the pod CIDRs of all Nodes; where a machine's Node has none yet, those that it is to get.
func podCIDRsOf(seen Observed) map[string][]netip.Prefix {
	cidrs := map[string][]netip.Prefix{}
	for _, n := range seen.Nodes {
		cidrs[n.Name] = n.PodCIDRs
	}
	for machine, n := range match(seen).nodes {
		if m, _ := seen.Inventory.Machine(machine); len(n.PodCIDRs) == 0 {
			cidrs[n.Name] = m.PodCIDRs
		}
	}
	return cidrs
}
