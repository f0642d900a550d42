package lb

// The names of fields that the programs write for each other into objects of Kubernetes.
const (
	// LoadBalancerClass is the class of the Services that Plinth answers besides those
	// without one.
	LoadBalancerClass = "plinth.dev/bgp"
	// LoadBalancerClassAlias is another name of that class: VIPs on a link need no BGP.
	LoadBalancerClassAlias = "plinth.dev/lb"
	// VIPAllocated is the condition of a Service that says whether it has the VIPs that it
	// asks for.
	VIPAllocated = "plinth.dev/VIPAllocated"
	// VIPAnnounced is the condition of a Service of whose VIPs one is announced by nobody. It
	// is False then, with a [Reason], and is not there otherwise.
	VIPAnnounced = "plinth.dev/VIPAnnounced"
	// FabricReady is the condition of a Node by which its agent says that its BGP sessions
	// are up and its routes are in the kernel.
	FabricReady = "plinth.dev/FabricReady"
	// FabricDegraded is its reason where all routes are there, and another router stands
	// in for each whose session is down.
	FabricDegraded = "Degraded"
	// FabricSessionsDown is its reason where all routes are there, and no other router
	// stands in.
	FabricSessionsDown = "SessionsDown"
	// FabricCutOff is its reason where all routes are there, pods of other subnets are reached
	// through routers, and no router keeps this machine's routes any more.
	FabricCutOff = "CutOff"
	// FabricOutdated is its reason where it is true, and a newer version has stored what this
	// machine's agent does not read: what was known before stays in force.
	FabricOutdated = "Outdated"

	// ManagedBy is the value of ipaddress.kubernetes.io/managed-by on the IPAddress objects
	// that are Plinth's: the claims.
	ManagedBy = "plinth.dev"
	// ClaimFormat is the number of the format of the claims.
	ClaimFormat = 1
	// ServiceUIDAnnotation has the UID of the Service that a claim's parentRef names.
	ServiceUIDAnnotation = "plinth.dev/service-uid"
	// SharedByAnnotation names the holders of a claim that several Services share, or that
	// one took over from another: namespace/name of each, comma separated, sorted.
	SharedByAnnotation = "plinth.dev/shared-by"
	// HomesAnnotation has the machines that are to answer for a claim's VIP on a link, in order,
	// comma separated. The controller chooses them.
	HomesAnnotation = "plinth.dev/homes"
	// OwnerLabel has the Node that answers for a claim's VIP on a link, as its agent says. People read
	// it; nothing goes by it.
	OwnerLabel = "plinth.dev/owner"
	// InPoolLabel is on each Node that has pod CIDRs or addresses which a pool has, too; its value is the name of the pool, the first
	// by name. Agents follow the Nodes that bear it: no route that answers for a pool is over these.
	InPoolLabel = "plinth.dev/in-pool"
	// HomeAnnotation, on a Service, names the machine that is to answer for its VIPs on a link
	// while it can.
	HomeAnnotation = "plinth.dev/home"
	// RenewedAnnotation has the version that a claim was of before it was renewed for the Service
	// that it names, so that a leader that was about to remove it does not.
	RenewedAnnotation = "plinth.dev/renewed"
)

// IsOurClass reports whether a loadBalancerClass is Plinth's.
func IsOurClass(class string) bool {
	return class == LoadBalancerClass || class == LoadBalancerClassAlias
}
