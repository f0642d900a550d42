package preview

import (
	"net/netip"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

// Cluster is what the API server says, as far as announcements depend on it.
type Cluster struct {
	// Nodes are those that there are, by name. nil: nothing is known, and each machine that is
	// to have one counts as if it had.
	Nodes map[string]Node
	// Services are those that hold a VIP, sorted.
	Services []Service
}

// VIPsInUse is how many addresses some Service holds.
func (c Cluster) VIPsInUse() int {
	all := map[netip.Addr]bool{}
	for _, s := range c.Services {
		for _, a := range s.VIPs {
			all[a] = true
		}
	}
	return len(all)
}

// Node is what matters of a Node.
type Node struct {
	Identity inventory.NodeIdentity // its name is the key that the Node stands under
	Excluded bool                   // it bears node.kubernetes.io/exclude-from-external-load-balancers
	// Silent: there is no word that it serves. Its kubelet has not been heard of, or its agent
	// has not said that a router keeps its routes.
	Silent bool
	// NoSession: its kubelet is heard of, and its agent says that no session with a router is up.
	NoSession bool
	NoAgent   bool // no agent has ever said anything of it
}

// Service is what matters of a Service.
type Service struct {
	Key          lb.ServiceKey
	Labels       map[string]string
	VIPs         []netip.Addr // that it holds
	LocalTraffic bool         // externalTrafficPolicy: Local
	Endpoints    map[lb.Family]advertise.Spread
}

// Failures are what is assumed to be dead.
type Failures struct {
	Machines map[string]bool
	Routers  map[string]bool
}
