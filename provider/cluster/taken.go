package cluster

import (
	"fmt"
	"net/netip"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/endpoints"
	"plinth.dev/plinth/provider/taken"
)

// taken are the addresses of the cluster, sorted. Of pods that are in no pod CIDR of a Node, as some CNIs have them, the
// endpoints are known.
func (o objects) taken() []lb.Taken {
	all := taken.In(o.nodes, o.services, o.cidrs, taken.Everything)
	for _, slice := range o.slices {
		s := endpoints.Of(slice)
		for _, e := range s.All {
			if e.Node != "" {
				all = append(all, lb.Taken{Prefix: netip.PrefixFrom(e.Addr, e.Addr.BitLen()), Who: fmt.Sprintf("an endpoint of service %s on node %s", s.Service, e.Node)})
			}
		}
	}
	lb.SortTaken(all)
	return all
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
