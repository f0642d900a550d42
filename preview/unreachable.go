package preview

import (
	"cmp"
	"maps"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Unreachable returns the VIPs in use that some machine announces under one inventory, and none
// would under the next. A machine that has fallen silent counts as no way left; where all ways
// to a VIP are silent, what they would announce counts, so that an API server that has lost
// sight of the machines lets nothing dangerous pass.
func Unreachable(before, after *inventory.Inventory, c Cluster) []inventory.LostVIP {
	lost := c.lost(before, after)
	heard := c.heard()
	if len(heard.Nodes) == len(c.Nodes) {
		return lost
	}
	for _, vip := range heard.lost(before, after) {
		if !slices.ContainsFunc(lost, func(v inventory.LostVIP) bool { return v.Addr == vip.Addr }) {
			lost = append(lost, vip)
		}
	}
	slices.SortFunc(lost, func(a, b inventory.LostVIP) int { return a.Addr.Compare(b.Addr) })
	return lost
}

// heard is the cluster without the Nodes that have fallen silent.
func (c Cluster) heard() Cluster {
	if c.Nodes != nil {
		c.Nodes = maps.Clone(c.Nodes)
		maps.DeleteFunc(c.Nodes, func(_ string, n Node) bool { return n.Silent })
	}
	return c
}

func (c Cluster) lost(before, after *inventory.Inventory) (lost []inventory.LostVIP) {
	was, is := Of(before, c, Failures{}), Of(after, c, Failures{})
	for i, vip := range is.VIPs { // of the same Services, so the same addresses
		if len(vip.By) == 0 && len(was.VIPs[i].By) > 0 {
			l := inventory.LostVIP{Addr: vip.Addr, Why: vip.why(was.VIPs[i])}
			for _, s := range vip.Services {
				l.Services = append(l.Services, s.String())
			}
			lost = append(lost, l)
		}
	}
	return lost
}

// words say of a VIP that nobody announces why no machine does.
var words = map[lb.Reason]string{
	lb.VIPOutsidePools:       "no pool has it",
	lb.PoolIsDisabled:        "its pool is disabled",
	lb.PoolLimitedToRacks:    "its pool is announced from racks that have no machine for it",
	lb.PoolLimitedToZones:    "its pool is announced from zones that have no machine for it",
	lb.PoolLimitedToRouters:  "its pool is announced to routers that no machine has a session with",
	lb.PoolLimitedToServices: "no advertisement of its pool selects its Service",
	lb.SessionLacksFamily:    "no session carries its address family",
	lb.NoSession:             "no machine for it has a session with a router",
	lb.MachineNotActive:      "no machine for it is active",
	lb.NodeExcluded:          "the Nodes for it are excluded from load balancers",
	lb.NoEndpoint:            "its Service has no endpoint",
	lb.NoLocalEndpoint:       "no machine that could announce it has an endpoint",
}

// why tells what keeps more machines from announcing a VIP than before.
func (v VIP) why(before VIP) string {
	more := func(r lb.Reason) int { return v.Reasons[r] - before.Reasons[r] }
	reasons := slices.SortedFunc(maps.Keys(v.Reasons), func(a, b lb.Reason) int {
		return cmp.Or(cmp.Compare(more(b), more(a)), cmp.Compare(a, b))
	})
	if len(reasons) == 0 {
		return "no machine is left"
	}
	return cmp.Or(words[reasons[0]], string(reasons[0]))
}
