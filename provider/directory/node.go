package directory

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/taken"
	"plinth.dev/plinth/routing"
)

// NodeOf reduces a Node to the part that other machines need of it.
func NodeOf(node *v1.Node) routing.Node {
	return routing.Node{
		Name: node.Name, ProviderID: node.Spec.ProviderID, Rack: node.Labels[inventory.LabelRack], Created: node.CreationTimestamp.UTC(),
		Addresses: internalAddresses(node), PodCIDRs: routing.ParsePodCIDRs(node.Spec.PodCIDRs),
	}
}

func internalAddresses(n *v1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == v1.NodeInternalIP {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// takenOfNode bounds the addresses of one Node that count, pod CIDRs first: its kubelet writes its addresses.
const takenOfNode = 64

// TakenOf reduces a Node to its addresses and pod CIDRs, which no VIP is given from.
func TakenOf(node *v1.Node) (has []netip.Prefix) {
	all := taken.ByNode(node)
	for _, t := range all[:min(len(all), takenOfNode)] {
		has = append(has, t.Prefix)
	}
	return has
}
