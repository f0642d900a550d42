package lb

// Why a VIP, or a pod CIDR, is not announced, or is announced as the worse way. A pool that
// is disabled gives [PoolIsDisabled].
const (
	MachineNotActive     Reason = "MachineNotActive"     // its state is neither active nor maintenance that is being drained
	MachineDrained       Reason = "MachineDrained"       // the drain time is over, and everything is withdrawn
	NodeExcluded         Reason = "NodeExcluded"         // the Node bears node.kubernetes.io/exclude-from-external-load-balancers
	ProxyUnhealthy       Reason = "ProxyUnhealthy"       // kube-proxy on this machine says that it does not work
	NoSession            Reason = "NoSession"            // the machine has no session with any router
	SessionLacksFamily   Reason = "SessionLacksFamily"   // no session with the router carries the address family
	PoolLimitedToRacks   Reason = "PoolLimitedToRacks"   // the pool is announced from other racks
	PoolLimitedToZones   Reason = "PoolLimitedToZones"   // the pool is announced from other zones
	PoolLimitedToRouters Reason = "PoolLimitedToRouters" // the pool is announced to other routers
	VIPOutsidePools      Reason = "VIPOutsidePools"      // no pool of the inventory has the address
	NoEndpoint           Reason = "NoEndpoint"           // no endpoint anywhere can take traffic
	NoLocalEndpoint      Reason = "NoLocalEndpoint"      // externalTrafficPolicy is Local, and no endpoint of this machine can take traffic
	// LocalEndpointsTerminating: with externalTrafficPolicy Local, all endpoints of this
	// machine that can take traffic terminate, and others are ready elsewhere. A prefix is
	// announced as the worse way for it.
	LocalEndpointsTerminating Reason = "LocalEndpointsTerminating"

	PodCIDROutsideNetwork Reason = "PodCIDROutsideNetwork" // the pod CIDR lies outside the pod network of the inventory
)
