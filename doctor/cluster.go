package doctor

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// Cluster is the state that was read of a cluster. Its slices are sorted.
type Cluster struct {
	Server     string               `json:"server"`               // version of the API server, as v1.37.1
	Now        time.Time            `json:"now"`                  // by the clock of the API server; zero: it is not known
	Namespace  string               `json:"namespace"`            // Plinth's, or where it will be
	Enforced   string               `json:"enforced,omitempty"`   // pod security level of that namespace; empty: none
	Program    string               `json:"program,omitempty"`    // that leads there by a name that is not Plinth's; empty: there is none
	Inventory  *inventory.Inventory `json:"-"`                    // in force, or that is to be; nil: none is known
	Nodes      []Node               `json:"nodes,omitempty"`      // all
	Workloads  []Workload           `json:"workloads,omitempty"`  // that run or would run, of DaemonSets, Deployments and static Pods
	Leases     []Lease              `json:"leases,omitempty"`     // of cloud controller managers
	Services   []Service            `json:"services,omitempty"`   // of type LoadBalancer, or with externalIPs
	Blocks     []Block              `json:"blocks,omitempty"`     // of addresses that others give from
	Neighbours []Neighbour          `json:"neighbours,omitempty"` // of other BGP speakers
	Proxy      *Proxy               `json:"proxy,omitempty"`      // kube-proxy's configuration; nil: no ConfigMap has it
	// ProxyReplaced: Cilium serves Services in the place of kube-proxy.
	ProxyReplaced bool     `json:"proxyReplaced,omitempty"`
	Unread        []string `json:"unread,omitempty"` // what may not be read, and why
}

// Node is a Node of the cluster, reduced to the fields that checks read.
type Node struct {
	Name         string         `json:"name"`
	Ready        bool           `json:"ready"`
	NoCNI        bool           `json:"noCNI,omitempty"`    // its kubelet says that the container runtime has no pod network
	NoRoutes     bool           `json:"noRoutes,omitempty"` // condition NetworkUnavailable, by a route controller
	Taints       []string       `json:"taints,omitempty"`   // keys
	Excluded     bool           `json:"excluded,omitempty"` // it bears node.kubernetes.io/exclude-from-external-load-balancers
	ControlPlane bool           `json:"controlPlane,omitempty"`
	ProviderID   string         `json:"providerID,omitempty"`
	SystemUUID   string         `json:"systemUUID,omitempty"`
	NodeIPs      string         `json:"nodeIPs,omitempty"` // of --node-ip, a comma list
	Addresses    []netip.Addr   `json:"addresses,omitempty"`
	PodCIDRs     []netip.Prefix `json:"podCIDRs,omitempty"`
	Kubelet      string         `json:"kubelet,omitempty"` // its version
	System       string         `json:"system,omitempty"`  // linux or windows
	Renewed      time.Time      `json:"renewed,omitzero"`  // its lease, by its clock; zero: not known
	Agent        *Agent         `json:"agent,omitempty"`   // nil: no agent has said anything
}

// Agent is the report of an agent of Plinth in the condition of its Node.
type Agent struct {
	Sessions     []Session        `json:"sessions,omitempty"` // that are down
	Settings     []Setting        `json:"settings,omitempty"` // of the kernel, that are not as they should be
	Links        []lb.LinkProblem `json:"links,omitempty"`
	ProxyRefuses bool             `json:"proxyRefuses,omitempty"` // kube-proxy says that it does not serve
	RulesLost    int              `json:"rulesLost,omitempty"`    // VIPs for which kube-proxy's rules are gone
}

// Session is a BGP session that is down.
type Session struct {
	Router string `json:"router"`
	Peer   string `json:"peer"`  // its address
	Cause  string `json:"cause"` // as plinth explain knows it
}

// Setting is a setting of a kernel.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Want  string `json:"want"`
}

// Workload is a DaemonSet, a Deployment or a static Pod, by its containers.
type Workload struct {
	Kind      string            `json:"kind"` // as kubectl takes it: daemonset, deployment, pod
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Programs  []string          `json:"programs,omitempty"` // the last two parts of its images' names, without tags
	Runs      bool              `json:"runs"`               // on one Node at least, or with one replica
	Ports     []Port            `json:"ports,omitempty"`    // of the machine
	Flags     map[string]string `json:"flags,omitempty"`    // some; see flagsRead
	Raw       bool              `json:"raw,omitempty"`      // it has the capability NET_RAW
	Serves    bool              `json:"serves,omitempty"`   // kube-vip: it gives Services their addresses
	HoldsAPI  bool              `json:"holdsAPI,omitempty"` // kube-vip: it has the address of the API server, too
	Service   string            `json:"service,omitempty"`  // servicelb: namespace/name of the Service that it leads to
}

// Port is a port of a machine.
type Port struct {
	Protocol string `json:"protocol"` // TCP or UDP
	Number   int32  `json:"number"`
}

// Lease is the lease of a cloud controller manager.
type Lease struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Holder    string        `json:"holder,omitempty"`
	Program   string        `json:"program,omitempty"` // that wrote the holder, as the API server knows it
	Renewed   time.Time     `json:"renewed,omitzero"`
	Lasts     time.Duration `json:"lasts,omitempty"` // in nanoseconds
}

// Service is a Service of the cluster, reduced to the fields that checks read.
type Service struct {
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	Allocated   bool         `json:"allocated,omitempty"` // Plinth has said something to it
	Foreign     bool         `json:"foreign,omitempty"`   // its class is that of another balancer
	Shown       []netip.Addr `json:"shown,omitempty"`     // in its status
	ExternalIPs []netip.Addr `json:"externalIPs,omitempty"`
}

// Use is the use of a block of addresses.
type Use string

// The uses of blocks.
const (
	ForPods     Use = "pods"
	ForServices Use = "services" // cluster IPs
	ForVIPs     Use = "vips"     // of another balancer
	Unmasked    Use = "unmasked" // packets of pods go there with the pods' own addresses
)

// Block is a block of addresses with the object that names it.
type Block struct {
	Use    Use          `json:"use"`
	Of     Object       `json:"of"`
	Prefix netip.Prefix `json:"prefix"`
}

// Object names an object as kubectl does.
type Object struct {
	Kind      string `json:"kind"` // such as bgppeers.metallb.io
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Neighbour is a router that another BGP speaker of the cluster has sessions with.
type Neighbour struct {
	Of      Object     `json:"of"`
	Address netip.Addr `json:"address"`
}

// Proxy is the configuration of kube-proxy.
type Proxy struct {
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Mode        string         `json:"mode,omitempty"`
	IPVS        bool           `json:"ipvs,omitempty"`      // it has a section ipvs
	StrictARP   string         `json:"strictARP,omitempty"` // true, false; empty: it is not said
	Health      string         `json:"health,omitempty"`    // healthzBindAddress
	ClusterCIDR []netip.Prefix `json:"clusterCIDR,omitempty"`
}
