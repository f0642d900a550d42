package preview

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Cluster is the state of a cluster at the API server, as far as announcements depend on it.
type Cluster struct {
	// Nodes are the Nodes of the cluster, by name. nil: nothing is known, and each machine that is
	// to have one counts as if it had.
	Nodes map[string]Node
	// Services are the Services that hold a VIP, sorted.
	Services []Service
	// Homes are the machines that the controller has chosen to answer for VIPs on links, in order. Those of
	// others are chosen as it would.
	Homes map[netip.Addr][]string
	// Owners are the machines that answer for VIPs on links now, where that is known.
	Owners map[netip.Addr]string
	// Taken are the addresses of pods, Nodes and Services, and Endpoints by Node how many endpoints of any Service are
	// ready there, where somebody asked for them.
	Taken     []lb.Taken
	Endpoints map[string]int
}

// Ruleless returns the VIPs of Services that kube-proxy leaves alone: its rules are no evidence for them.
func (c Cluster) Ruleless() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, s := range c.Services {
		if lb.ProxyOf(s.Labels) == lb.KubeProxy {
			continue
		}
		for _, a := range s.VIPs {
			all[a] = true
		}
	}
	return all
}

// VIPsInUse returns the number of addresses that some Service holds.
func (c Cluster) VIPsInUse() int {
	return len(c.holders())
}

// Identities returns the fields that identify the machines of Nodes, sorted by the Nodes' names.
func (c Cluster) Identities() (all []inventory.NodeIdentity) {
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		n := c.Nodes[name].Identity
		n.Name = name
		all = append(all, n)
	}
	return all
}

// Node is a Node of the cluster, reduced to the fields that announcements depend on.
type Node struct {
	Identity inventory.NodeIdentity // its name is the key that the Node stands under
	Excluded bool                   // it bears node.kubernetes.io/exclude-from-external-load-balancers
	// Silent: there is no word that it serves. Its kubelet has not been heard of, or its agent
	// has not said that a router keeps its routes.
	Silent bool
	// NoSession: its kubelet is heard of, and its agent says that no session with a router is up.
	NoSession bool
	NoAgent   bool // no agent has ever said anything of it
	// Down are the sessions that its agent says are down, by the router's end. Others may be, too.
	Down         []SessionEnd
	ProxyRefuses bool // its agent says that kube-proxy does not serve
	NoRules      bool // its agent says that kube-proxy's rules for all VIPs are gone
	// LinkProblems are the problems of links that its agent reports.
	LinkProblems []lb.LinkProblem
	// PodCIDRs are the pod CIDRs of its spec. Without any the inventory's count.
	PodCIDRs []netip.Prefix
	Created  time.Time // of two that claim one pod CIDR the older keeps it
}

// SessionEnd is the router's end of a session.
type SessionEnd struct {
	Router string
	Peer   netip.Addr
}

// Service is a Service of the cluster, reduced to the fields that announcements depend on.
type Service struct {
	Key          lb.ServiceKey
	Labels       map[string]string
	VIPs         []netip.Addr // that it holds
	Home         string       // the machine that it asks to answer for those on links; empty: none
	LocalTraffic bool         // externalTrafficPolicy: Local
	Endpoints    map[lb.Family]advertise.Spread
}

// Failures are the machines and routers that are assumed to be dead, by name. With a machine its endpoints are gone; with a
// router the routes that it was told.
type Failures struct {
	Machines map[string]bool
	Routers  map[string]bool
}

// And returns the union of two sets of failures.
func (f Failures) And(g Failures) Failures {
	return Failures{united(f.Machines, g.Machines), united(f.Routers, g.Routers)}
}

func united(a, b map[string]bool) map[string]bool {
	out := map[string]bool{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// FailureOfRack returns the failure of all machines of a rack, and of its own routers.
func FailureOfRack(inv *inventory.Inventory, rack string) Failures {
	failures := Failures{map[string]bool{}, map[string]bool{}}
	for m := range inv.Machines() {
		if m.Rack == rack {
			failures.Machines[m.Name] = true
		}
	}
	for _, r := range inv.Routers {
		if r.Rack == rack {
			failures.Routers[r.Name] = true
		}
	}
	return failures
}

// without is the cluster's Services without the endpoints on some Nodes.
func (c Cluster) without(nodes map[string]bool) []Service {
	if len(nodes) == 0 {
		return c.Services
	}
	all := slices.Clone(c.Services)
	for i, s := range all {
		all[i].Endpoints = map[lb.Family]advertise.Spread{}
		for f, spread := range s.Endpoints {
			all[i].Endpoints[f] = advertise.Spread{Ready: lessThan(spread.Ready, nodes), Ending: lessThan(spread.Ending, nodes), NotFollowed: spread.NotFollowed}
		}
	}
	return all
}

// lessThan is a count by Node without that of some Nodes.
func lessThan(count map[string]int, nodes map[string]bool) map[string]int {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(count)), func(n string) bool { return nodes[n] }) {
		return count
	}
	left := maps.Clone(count)
	maps.DeleteFunc(left, func(n string, _ int) bool { return nodes[n] })
	return left
}
