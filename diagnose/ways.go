package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/routing"
)

// podFindings tell of pods that do not reach each other, by the routes that the agents plan. Nodes that claim one pod CIDR
// have findings of their own.
func podFindings(seen Observed) (out []Finding) {
	if !seen.Planned {
		return nil
	}
	inService := preview.Cluster{Nodes: maps.Clone(seen.Cluster.Nodes)}
	maps.DeleteFunc(inService.Nodes, func(_ string, n preview.Node) bool {
		m, err := seen.Inventory.Identify(n.Identity)
		return err != nil || m.State != inventory.StateActive
	})
	for _, a := range preview.Of(seen.Inventory, inService, preview.Failures{}).PodsApart() {
		if a.Reason == string(routing.PodCIDRInUse) {
			continue
		}
		var racks []string
		for _, pair := range a.Racks {
			racks = append(racks, pair[0]+" to "+pair[1])
		}
		out = append(out, Finding{
			Kind: KindPods, Of: someOf(racks), Reason: a.Reason,
			Message: fmt.Sprintf("have no way over %s between %s: %s", a.Family, countOf(a.Pairs, "pair")+" of machines", a.Reason),
		})
	}
	return out
}

// podCIDRFindings tell of Nodes of which one has a pod CIDR of the other's: of one of them no pod is reached.
func podCIDRFindings(seen Observed) (out []Finding) {
	cidrs := map[string][]netip.Prefix{}
	for _, n := range seen.Nodes {
		cidrs[n.Name] = n.PodCIDRs
	}
	with := routing.Overlaps(cidrs)
	for _, node := range slices.Sorted(maps.Keys(with)) {
		out = append(out, Finding{
			Kind: KindNode, Name: node, Reason: string(routing.PodCIDRInUse),
			Message: fmt.Sprintf("has pod CIDRs %v, and Node %s has one that overlaps: pods of the younger Node are not reached", cidrs[node], with[node]),
		})
	}
	return out
}
