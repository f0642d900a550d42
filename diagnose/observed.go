package diagnose

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// Observed is the state of a cluster at one moment, or nearly so.
type Observed struct {
	Inventory *inventory.Inventory // in force; nil: none is
	// Unreadable is the reason for which the stored inventory cannot be read, with the next step; Inventory is then the part that can be read.
	// Empty: it can.
	Unreadable  string
	NewerFormat bool // that is so since a newer version has stored it
	Edit        Edit
	Nodes       []Node          // sorted by name
	Services    []Service       // of type LoadBalancer
	Claimed     []netip.Addr    // VIPs that have an IPAddress object of Plinth's
	Cluster     preview.Cluster // the same Nodes and Services, as they are planned with
	Planned     bool            // Cluster is known
	// Controllers and Agents are pods; none where they run outside of the cluster.
	Controllers []Pod
	Agents      []Pod
	Leader      *Leader  // of the controllers; nil: it is not known whether there is one
	NotKnown    []string // what the reader has no right to see, and why
}

// Edit is the controller's report on the latest edit of the inventory.
type Edit struct {
	Ready      bool // it is in force
	Generation string
	Problems   []string
	Store      string // why what is in force, or is to be, cannot be stored or read; empty: it can
	Refused    string // digest of the losses that it is refused for; empty: it is not
	Unread     bool   // all this is of another edit than stands in the ConfigMaps
	// Trial are the Nodes that try its terms of sessions, each with the routers; none: nothing is tried.
	Trial []string
	// NodesWithoutMachine and MachinesWithoutNode are what has no counterpart, by its word.
	NodesWithoutMachine []string
	MachinesWithoutNode []string
}

// Node is a Node of the cluster, reduced to the fields that findings depend on.
type Node struct {
	inventory.NodeState
	Excluded     bool // it bears node.kubernetes.io/exclude-from-external-load-balancers
	ControlPlane bool
	Kubelet      Condition // Ready
	Fabric       Condition // plinth.dev/FabricReady
	Tainted      time.Time // since when it bears the taint of maintenance; zero: not told
}

// Condition is a condition of a Node or a Service. Its zero value: there is none.
type Condition struct {
	Status  string // True, False or Unknown
	Reason  string
	Message string
	Since   time.Time
	Heard   time.Time // when it was last written, be it that nothing changed; of Nodes alone
}

func (c Condition) isTrue() bool { return c.Status == "True" }

// Service is a Service of type LoadBalancer, reduced to the fields that findings depend on.
type Service struct {
	Key       lb.ServiceKey
	Class     string       // empty: none
	Proxy     lb.Proxy     // that serves it, by its labels
	Shown     []netip.Addr // in its status
	Allocated Condition    // plinth.dev/VIPAllocated
	Announced Condition    // plinth.dev/VIPAnnounced, which is there while a VIP is not announced
}

// ours reports whether Plinth answers a Service of that class. One without a class another
// balancer may have answered first.
func (s Service) ours() bool { return s.Class == "" || lb.IsOurClass(s.Class) }

// Pod is a pod of the controller or of an agent.
type Pod struct {
	Name    string
	Node    string // empty: not scheduled
	Image   string
	Pending string // what it waits for; empty: it runs
}

// Leader is the state of the controllers' lease.
type Leader struct {
	Lease   string        // namespace/name
	Exists  bool          // there is one
	Holder  string        // empty: nobody has it
	Program string        // that its holder is, where that is none of Plinth's; empty: it is, or that is not known
	Idle    string        // why it may not act though it leads; empty: it may, or that is not known
	Silent  time.Duration // for how long its holder has not renewed it, longer than it lasts; zero: it has
}

// node returns the Node of that name.
func (o Observed) node(name string) (Node, bool) {
	i, found := slices.BinarySearchFunc(o.Nodes, name, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	if !found {
		return Node{}, false
	}
	return o.Nodes[i], true
}
