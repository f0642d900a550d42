package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/endpoints"
	"plinth.dev/plinth/routing"
)

// taken are the addresses of the cluster: those of Nodes, of their pods, and of Services inside. Of pods that are in no pod
// CIDR of a Node, as some CNIs have them, the endpoints are known. They are sorted, blocks
// before what is in them: informers list objects in any order, and the digest that allows an edit goes by this one.
func (o objects) taken() (out []preview.Taken) {
	for _, n := range o.nodes {
		for _, p := range routing.ParsePodCIDRs(n.Spec.PodCIDRs) {
			out = append(out, preview.Taken{Prefix: p, Who: "the pods of node " + n.Name})
		}
		for _, a := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				out = append(out, single(addr, "node "+n.Name))
			}
		}
	}
	for _, s := range o.services {
		for _, a := range s.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(a); err == nil { // and not None
				out = append(out, single(addr, fmt.Sprintf("service %s/%s inside the cluster", s.Namespace, s.Name)))
			}
		}
	}
	for _, slice := range o.slices {
		s := endpoints.Of(slice)
		for _, e := range s.All {
			if e.Node != "" {
				out = append(out, single(e.Addr, fmt.Sprintf("an endpoint of service %s on node %s", s.Service, e.Node)))
			}
		}
	}
	slices.SortFunc(out, func(a, b preview.Taken) int {
		wider := func(t preview.Taken) int { return t.Prefix.Bits() - t.Prefix.Addr().BitLen() }
		return cmp.Or(cmp.Compare(wider(a), wider(b)), a.Prefix.Addr().Compare(b.Prefix.Addr()), strings.Compare(a.Who, b.Who))
	})
	return out
}

// endpoints counts the addresses that are ready endpoints of any Service, by Node.
func (o objects) endpoints() map[string]int {
	counted, out := map[netip.Addr]bool{}, map[string]int{}
	for _, slice := range o.slices {
		for _, e := range endpoints.Of(slice).All {
			if e.Ready && e.Node != "" && !counted[e.Addr] {
				counted[e.Addr] = true
				out[e.Node]++
			}
		}
	}
	return out
}

func single(a netip.Addr, who string) preview.Taken {
	return preview.Taken{Prefix: netip.PrefixFrom(a, a.BitLen()), Who: who}
}
