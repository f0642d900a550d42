package lb

// Reason names a "no". It is a metric label, the reason of an Event or
// condition, and has a row in docs/reference/reasons.md.
type Reason string

// Why a Service gets no VIP, or not the one that it asks for.
const (
	NoPools               Reason = "NoPools"               // the inventory has none
	PoolUnknown           Reason = "PoolUnknown"           // the pool asked for is not in the inventory
	PoolNotAutomatic      Reason = "PoolNotAutomatic"      // autoAssign is off and the Service asks neither for the pool nor for an address of it
	PoolIsDraining        Reason = "PoolIsDraining"        // the pool gives no new VIP
	PoolIsDisabled        Reason = "PoolIsDisabled"        // the pool is withdrawn
	NamespaceNotAllowed   Reason = "NamespaceNotAllowed"   // neither namespaces nor namespaceSelectors of the pool have the Service's
	LabelsNotSelected     Reason = "LabelsNotSelected"     // no Service selector of the pool matches the Service
	PoolLacksFamily       Reason = "PoolLacksFamily"       // the pool has no addresses of that family
	PoolExhausted         Reason = "PoolExhausted"         // every address of that family is held or reserved
	AddressInvalid        Reason = "AddressInvalid"        // what is asked for is not an address that anybody may have
	AddressNotInPool      Reason = "AddressNotInPool"      // no pool, or not the pool asked for, has the address
	AddressExcluded       Reason = "AddressExcluded"       // its pool leaves the address out, or it is a machine's, a router's or the cluster's
	AddressReserved       Reason = "AddressReserved"       // the address is kept for another Service
	AddressInUse          Reason = "AddressInUse"          // another Service, or another program, holds the address
	AddressResting        Reason = "AddressResting"        // a Service of another namespace gave the address back less than ten minutes ago
	FamilyNotRequested    Reason = "FamilyNotRequested"    // the address asked for is of a family that the Service does not have
	SharingKeyDiffers     Reason = "SharingKeyDiffers"     // the holders of the address use another sharing key, or none
	SharingPortInUse      Reason = "SharingPortInUse"      // a holder of the address serves the same port
	SharingBackendsDiffer Reason = "SharingBackendsDiffer" // with externalTrafficPolicy Local all holders must have the same backends
	SharingNamespace      Reason = "SharingNamespace"      // a sharing key counts within one namespace
	SharingKeyInvalid     Reason = "SharingKeyInvalid"     // a sharing key is at most 253 printable characters
)

// StatusNotHeld is the reason of the Event on a Service whose status shows an address of a
// pool that it does not hold, and that nobody is given meanwhile.
const StatusNotHeld Reason = "StatusNotHeld"

// PoolTakesAddress is the reason of the Event on a Node, or on a Service that has externalIPs, whose addresses a pool has, and of
// what plinth status says of the pool: no VIP is given from there.
const PoolTakesAddress Reason = "PoolTakesAddress"

// AnnotationIgnored is the reason of the Event on a Service of which an annotation of
// another balancer does not count.
const AnnotationIgnored Reason = "AnnotationIgnored"

// Why a VIP, or a pod CIDR, is not announced, or is announced as the worse way. A pool that
// is disabled gives [PoolIsDisabled].
const (
	MachineNotActive     Reason = "MachineNotActive"     // its state is neither active nor maintenance that is being drained
	MachineDrained       Reason = "MachineDrained"       // the drain time is over, and everything is withdrawn
	NodeExcluded         Reason = "NodeExcluded"         // the Node bears node.kubernetes.io/exclude-from-external-load-balancers
	ProxyUnhealthy       Reason = "ProxyUnhealthy"       // kube-proxy on this machine says that it does not serve
	NoSession            Reason = "NoSession"            // the machine has no session with any router
	SessionLacksFamily   Reason = "SessionLacksFamily"   // no session with the router carries the address family
	PoolLimitedToRacks   Reason = "PoolLimitedToRacks"   // the pool is announced from other racks
	PoolLimitedToZones   Reason = "PoolLimitedToZones"   // the pool is announced from other zones
	PoolLimitedToRouters Reason = "PoolLimitedToRouters" // the pool is announced to other routers
	// PoolLimitedToServices: no advertisement of the pool selects the Service by its labels.
	PoolLimitedToServices Reason = "PoolLimitedToServices"
	VIPOutsidePools       Reason = "VIPOutsidePools"      // no pool of the inventory has the address
	NoEndpoint            Reason = "NoEndpoint"           // no endpoint anywhere can take traffic
	EndpointsNotFollowed  Reason = "EndpointsNotFollowed" // those that could take traffic are in EndpointSlices that the Service's proxy does not follow
	NoLocalEndpoint       Reason = "NoLocalEndpoint"      // externalTrafficPolicy is Local, and no endpoint of this machine can take traffic
	ProxyRulesPending     Reason = "ProxyRulesPending"    // kube-proxy on this machine has no rules for it yet, as far as it shows them
	// ProxyRulesOverdue: a VIP is announced although kube-proxy on this machine has not shown
	// rules for it within the bound.
	ProxyRulesOverdue Reason = "ProxyRulesOverdue"
	// ProxyRulesLost: kube-proxy on this machine had rules for the VIP, and they are gone.
	ProxyRulesLost Reason = "ProxyRulesLost"
	// LocalEndpointsTerminating: with externalTrafficPolicy Local, all endpoints of this
	// machine that can take traffic terminate, and others are ready elsewhere. A prefix is
	// announced as the worse way for it.
	LocalEndpointsTerminating Reason = "LocalEndpointsTerminating"
	NoSessionUp               Reason = "NoSessionUp"    // no machine that is to announce the VIP has a session up that carries its family, by the word of their agents
	NoAgent                   Reason = "NoAgent"        // the machines that are to announce the VIP have never had an agent
	NoMachineKnown            Reason = "NoMachineKnown" // no Node is a machine of the inventory

	PodCIDROutsideNetwork Reason = "PodCIDROutsideNetwork" // the pod CIDR lies outside the pod network of the inventory
)

// LacksEndpoints reports whether a VIP is announced by nobody since no endpoint can take traffic, as far as its Service's
// proxy knows.
func (r Reason) LacksEndpoints() bool { return r == NoEndpoint || r == EndpointsNotFollowed }

// Why kube-proxy leaves a Service alone. Its VIPs are announced without a question about rules.
const (
	ServedByOtherProxy Reason = "ServedByOtherProxy" // a label of the Service names another program that serves it
	LabelledHeadless   Reason = "LabelledHeadless"   // it bears the label of headless Services' EndpointSlices
)

// Why a VIP is not answered for on a link, or not by its owner alone.
const (
	NotOwner           Reason = "NotOwner"           // another machine answers for it
	NoMajority         Reason = "NoMajority"         // the machine does not see most others of the subnet, or has not yet seen who is there
	WitnessSilent      Reason = "WitnessSilent"      // the same, and the gateway does not answer either
	NoInterface        Reason = "NoInterface"        // no Ethernet interface has the machine's address in the subnet
	NoCarrier          Reason = "NoCarrier"          // that interface is down or has no carrier
	CapabilityMissing  Reason = "CapabilityMissing"  // the agent may not open packet sockets
	AddressOnInterface Reason = "AddressOnInterface" // the VIP is an address of an interface of the machine, whose kernel answers for it, too
	AddressConflict    Reason = "AddressConflict"    // a host that is no machine of the subnet says that it has the VIP
	AnsweredByOther    Reason = "AnsweredByOther"    // another machine answers for it than the one that is to
	NotAnsweredOnWire  Reason = "NotAnsweredOnWire"  // the machine that is to answer for it does not, as others find on the wire
)
