package preview

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Unreachable returns the VIPs in use that some machine announces under one inventory, and none
// would under the next. An edit is lasting, and much else is not:
//
//   - A Service without endpoints counts as if it had some: it may have them in a second.
//   - A machine that is silent, or has no Node, may announce on, and may not. A VIP is lost if
//     all machines together lose it, and if those that are heard of do. To take a machine out
//     of service that has fallen silent takes nothing away.
//   - A Node is a machine as agents see it that run: under the next inventory, as one that
//     begins does.
func Unreachable(before, after *inventory.Inventory, cluster Cluster) []edit.LostVIP {
	cluster = cluster.served()
	dead := func(n inventory.NodeIdentity) bool {
		m, err := after.MachineOf(n)
		return cluster.Nodes[n.Name].Silent && err == nil && m.State != inventory.StateActive
	}
	identify := func(n inventory.NodeIdentity) (inventory.Machine, error) {
		if dead(n) {
			return inventory.Machine{}, inventory.ErrNoMachine
		}
		return before.MachineOf(n)
	}
	absent, stillAbsent := cluster.withoutNode(before), cluster.withoutNode(after)
	lost := lostOf(of(before, cluster, Failures{}, identify, absent), of(after, cluster, Failures{}, after.Identify, stillAbsent))
	heard := cluster.heard()
	if len(heard.Nodes) == len(cluster.Nodes) && len(absent)+len(stillAbsent) == 0 {
		return lost // all are heard of
	}
	for _, vip := range lostOf(of(before, heard, Failures{}, before.MachineOf, nil), of(after, heard, Failures{}, after.Identify, nil)) {
		if !slices.ContainsFunc(lost, func(v edit.LostVIP) bool { return v.Addr == vip.Addr }) {
			lost = append(lost, vip)
		}
	}
	slices.SortFunc(lost, func(a, b edit.LostVIP) int { return a.Addr.Compare(b.Addr) })
	return lost
}

func keysOf(all []lb.ServiceKey) []string { return slices.Compact(inventory.Strings(all)) }

// served is the cluster with an endpoint for each VIP that has none of its family. Where those
// would be nobody knows, so that local traffic does not count for it.
func (c Cluster) served() Cluster {
	var all []Service
	for _, service := range c.Services {
		idle := service
		idle.VIPs, idle.LocalTraffic, idle.Endpoints = nil, false, map[lb.Family]advertise.Spread{}
		service.VIPs = slices.DeleteFunc(slices.Clone(service.VIPs), func(vip netip.Addr) bool {
			f := lb.FamilyOf(vip)
			if service.Endpoints[f].Unserved() == "" {
				return false
			}
			idle.VIPs, idle.Endpoints[f] = append(idle.VIPs, vip), advertise.Spread{Ready: map[string]int{"": 1}}
			return true
		})
		all = append(all, service, idle)
	}
	c.Services = all
	return c
}

// withoutNode are the machines of an inventory that no Node is.
func (c Cluster) withoutNode(inv *inventory.Inventory) (out []inventory.Machine) {
	known := map[string]bool{}
	for name, n := range c.Nodes {
		n.Identity.Name = name
		if m, err := inv.MachineOf(n.Identity); err == nil {
			known[m.Name] = true
		}
	}
	for m := range inv.Machines() {
		if !known[m.Name] {
			out = append(out, m)
		}
	}
	return out
}

// heard is the cluster without the Nodes that are silent; nil Nodes, of which nothing is known, stay nil.
func (c Cluster) heard() Cluster {
	c.Nodes = maps.Clone(c.Nodes)
	maps.DeleteFunc(c.Nodes, func(_ string, n Node) bool { return n.Silent })
	return c
}

func lostOf(was, is *Preview) (lost []edit.LostVIP) {
	for i, vip := range is.VIPs { // of the same Services, so the same addresses
		if len(vip.By) == 0 && len(was.VIPs[i].By) > 0 {
			lost = append(lost, edit.LostVIP{Addr: vip.Addr, Services: inventory.Strings(vip.Services), Why: vip.why(was.VIPs[i])})
		}
	}
	return lost
}

// words maps the reason why no machine announces a VIP to its description.
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
	lb.EndpointsNotFollowed:  "its Service's proxy does not follow the EndpointSlices that have its endpoints",
	lb.NoLocalEndpoint:       "no machine that could announce it has an endpoint",
	lb.NoSessionUp:           "no machine that is to announce it has a session up that carries its family",
	lb.NoAgent:               "no agent has run on a machine that is to announce it",
	lb.ProxyUnhealthy:        "kube-proxy says that it does not serve on the machines that are to announce it",
	lb.ProxyRulesLost:        "kube-proxy's rules are gone on the machines that are to announce it",
	lb.NoMachineKnown:        "no Node is a machine of the inventory",
	lb.NoInterface:           "no interface of a machine for it has an address in its subnet",
	lb.NoCarrier:             "no machine for it has a carrier in its subnet",
	lb.CapabilityMissing:     "no agent that could answer for it may open packet sockets",
	lb.NoMajority:            "no machine for it sees enough others of its subnet",
	lb.AddressConflict:       "a host that is no machine of the inventory says that it has it",
	lb.AnsweredByOther:       "another machine answers for it than the one that is to",
	lb.AddressOnInterface:    "an interface of a machine has it, whose kernel answers as well",
	lb.NotAnsweredOnWire:     "the machine that is to answer for it is not heard by the next one",
	lb.WitnessSilent:         "no machine for it sees enough others of its subnet, or the gateway",
}

// why returns the reason that keeps more machines from announcing a VIP than before.
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
