package taken

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/cache"
	netutils "k8s.io/utils/net"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// In returns the addresses that all Nodes, Services and ServiceCIDRs of a cluster use, sorted, as far as they count.
func In(nodes []*v1.Node, services []*v1.Service, cidrs []*networkingv1.ServiceCIDR, counts func(lb.Taken) bool) (all []lb.Taken) {
	add := func(has []lb.Taken) {
		for _, t := range has {
			if counts(t) {
				all = append(all, t)
			}
		}
	}
	for _, n := range nodes {
		add(ByNode(n))
	}
	for _, s := range services {
		add(ByService(s))
	}
	for _, c := range cidrs {
		add(byServiceCIDR(c))
	}
	lb.SortTaken(all)
	return all
}

// Everything counts.
func Everything(lb.Taken) bool { return true }

// ByNode returns the addresses that a Node uses, be it a machine of the inventory or not: its pod CIDRs and addresses.
func ByNode(node *v1.Node) (all []lb.Taken) {
	for _, p := range podCIDRs(node) {
		all = append(all, lb.Taken{Prefix: p, Who: "the pods of node " + node.Name})
	}
	for _, a := range node.Status.Addresses {
		if p, ok := single(a.Address); ok && (a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP) {
			all = append(all, lb.Taken{Prefix: p, Who: "node " + node.Name})
		}
	}
	return all
}

// InPools returns the addresses of a Node that pools contain, be it a machine of the inventory or not, in the order of [ByNode] and by the pools' names.
func InPools(n *v1.Node, pools inventory.PoolRanges) (in []inventory.TakenAddress) {
	for _, t := range ByNode(n) {
		for _, pool := range pools.Having(t.Prefix) {
			in = append(in, inventory.TakenAddress{Pool: pool, Of: t.Prefix, Who: t.Who})
		}
	}
	return in
}

// podCIDRs returns the pod CIDRs of a Node. The API server keeps the first one in both fields.
func podCIDRs(n *v1.Node) (all []netip.Prefix) {
	written := n.Spec.PodCIDRs
	if !slices.Contains(written, n.Spec.PodCIDR) {
		written = append([]string{n.Spec.PodCIDR}, written...)
	}
	for _, s := range written {
		if p, ok := block(s); ok {
			all = append(all, p)
		}
	}
	return all
}

// ByService returns the addresses that a Service uses: its cluster IPs and externalIPs, but not its VIPs.
func ByService(service *v1.Service) (all []lb.Taken) {
	for _, a := range service.Spec.ClusterIPs {
		if p, ok := single(a); ok { // and not None
			all = append(all, lb.Taken{Prefix: p, Who: fmt.Sprintf("service %s/%s inside the cluster", service.Namespace, service.Name)})
		}
	}
	return append(all, ByExternalIPs(service)...)
}

// ByExternalIPs returns the externalIPs of a Service alone.
func ByExternalIPs(s *v1.Service) (all []lb.Taken) {
	for _, a := range s.Spec.ExternalIPs {
		if p, ok := single(a); ok {
			k := lb.ServiceKey{Namespace: s.Namespace, Name: s.Name}
			all = append(all, lb.Taken{Prefix: p, Who: fmt.Sprintf("the externalIPs of service %v", k), Service: k, Proxied: true})
		}
	}
	return all
}

// byServiceCIDR returns the blocks that cluster IPs are allocated from.
func byServiceCIDR(c *networkingv1.ServiceCIDR) (all []lb.Taken) {
	for _, s := range c.Spec.CIDRs {
		if p, ok := block(s); ok {
			all = append(all, lb.Taken{Prefix: p, Who: "ServiceCIDR " + c.Name, Proxied: true})
		}
	}
	return all
}

// By returns the addresses that an object of any of these kinds uses, as an informer hands it out.
func By(obj any) []lb.Taken {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	switch o := obj.(type) {
	case *v1.Node:
		return ByNode(o)
	case *v1.Service:
		return ByService(o)
	case *networkingv1.ServiceCIDR:
		return byServiceCIDR(o)
	}
	return nil
}

// block reads a CIDR the way Kubernetes does: objects of older versions may have leading zeros, and host bits.
func block(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil { // nearly always
		return p.Masked(), true
	}
	_, n, err := netutils.ParseCIDRSloppy(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	a, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	p := netip.PrefixFrom(a, bits)
	return p, p.IsValid()
}

// single reads an address the way Kubernetes does, as a block of one.
func single(s string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(s) // nearly always
	if err != nil {
		a, _ = netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), a.IsValid()
}
