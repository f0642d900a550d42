package routing

import (
	"cmp"
	"net/netip"
	"slices"
)

// Overlaps returns the Nodes that have a pod CIDR which overlaps another Node's, each with one such. It takes the pod CIDRs
// of all Nodes, by name.
func Overlaps(cidrs map[string][]netip.Prefix) map[string]string {
	type block struct {
		cidr netip.Prefix
		node string
	}
	var all []block
	for node, has := range cidrs {
		for _, c := range has {
			all = append(all, block{c.Masked(), node})
		}
	}
	slices.SortFunc(all, func(a, b block) int { return cmp.Or(comparePrefix(a.cidr, b.cidr), cmp.Compare(a.node, b.node)) })
	with := map[string]string{}
	var widest block // of those so far the one that may contain the next: what contains comes before what it contains
	for _, next := range all {
		switch {
		case !widest.cidr.IsValid() || !widest.cidr.Overlaps(next.cidr):
			widest = next
		case next.node != widest.node:
			with[next.node] = widest.node
			if with[widest.node] == "" {
				with[widest.node] = next.node
			}
		}
	}
	return with
}
