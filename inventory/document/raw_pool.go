package document

import (
	"net/netip"

	"plinth.dev/plinth/inventory"
)

// rawPool is a set of addresses that Services may get.
type rawPool struct {
	mapped

	// The name that Services ask for by the annotation plinth.dev/pool.
	Name scalar[string] `key:"name" form:"name" required:"true"`
	// Prefixes, ranges ("first-last") and single addresses, of both families if wanted.
	Addresses list[scalar[inventory.Range]] `key:"addresses" required:"true"`
	// Prefixes, ranges and addresses among them that no Service gets.
	Exclude list[scalar[inventory.Range]] `key:"exclude"`
	// Addresses kept for one Service each: an address, then namespace/name.
	Reserved entries[inventory.Reservation] `key:"reserved" form:"address="`
	// Give addresses to Services that do not ask for a pool. Default: true.
	AutoAssign scalar[bool] `key:"autoAssign"`
	// Leave out the first and last address of each prefix. Default: false.
	SkipFirstLast scalar[bool] `key:"skipFirstLast"`
	// Order among pools that would do: lower first, then by name. Default: 0.
	Priority scalar[int] `key:"priority" form:"-1000000..1000000"`
	// Namespaces whose Services may use the pool, with those that namespaceSelectors match. Both empty: all.
	Namespaces list[scalar[string]] `key:"namespaces" form:"namespace"`
	// Selectors of Namespaces by their labels: Services of a Namespace that one of them matches, or that is in namespaces, may use the pool. Both empty: all.
	NamespaceSelectors list[rawSelector] `key:"namespaceSelectors"`
	// Services that may use the pool. Empty: all.
	ServiceSelector rawSelector `key:"serviceSelector"`
	// Several selectors: Services that one of them matches, or serviceSelector, may use the pool.
	ServiceSelectors list[rawSelector] `key:"serviceSelectors"`
	// active, draining (gives no new VIP) or disabled (gives none and is withdrawn). Default: active.
	State scalar[inventory.PoolState] `key:"state"`
	// Where and how the pool's VIPs are announced: a mapping, or a list of mappings. Of a list, all count that select the Service and fit the machine's rack and zone and the router. Each prefix is announced to a router once, with the attributes of the first of these that has it.
	Advertise oneOrMore[rawAdvertise] `key:"advertise"`
	// Written by Plinth alone, in what it keeps in the cluster: subnets that the pool's addresses are announced on.
	Links list[scalar[netip.Prefix]] `key:"links" hidden:"own"`
}

// rawSelector is a Kubernetes label selector.
type rawSelector struct {
	mapped

	// Labels that must be there with these values.
	MatchLabels entries[string] `key:"matchLabels" form:"labelKey=label"`
	// Conditions that must all hold.
	MatchExpressions list[rawRequirement] `key:"matchExpressions"`
}

// rawRequirement is one condition on one label.
type rawRequirement struct {
	mapped

	// The key of the label.
	Key scalar[string] `key:"key" form:"labelKey" required:"true"`
	// In, NotIn, Exists or DoesNotExist.
	Operator scalar[inventory.Operator] `key:"operator" required:"true"`
	// The values of In and NotIn.
	Values list[scalar[string]] `key:"values" form:"label"`
}

// rawAdvertise says where and how VIPs are announced.
type rawAdvertise struct {
	mapped

	// Services whose VIPs are announced so. Empty: all.
	ServiceSelector rawSelector `key:"serviceSelector"`
	// How addresses in a rack's subnets are announced: link (one machine answers for each on the subnet, by ARP or neighbour discovery) or bgp. Default: link where no rack of the subnet has a router; else it has to be said. All advertisements of a pool say the same. Addresses outside every subnet are announced over BGP whatever it says.
	Via scalar[inventory.Via] `key:"via"`
	// Racks whose machines announce. Empty: all.
	Racks list[scalar[string]] `key:"racks" form:"name"`
	// Zones whose machines announce. Empty: all.
	Zones list[scalar[string]] `key:"zones" form:"label"`
	// Routers that are told. Empty: all. Not for pools that are on a link as a whole.
	Routers list[scalar[string]] `key:"routers" form:"name"`
	// Length of the prefix that is announced around a VIP. Default: 32 for IPv4 and 128 for IPv6, the VIP alone. A VIP of a Service with externalTrafficPolicy: Local is announced alone as well, so that routers send its packets only to machines that have an endpoint.
	Aggregate rawLengths `key:"aggregate"`
	// LOCAL_PREF on sessions within one AS (RFC 4271). Default: 100.
	LocalPref scalar[int] `key:"localPref" form:"0..4294967295"`
	// Names of spec.communities, well-known names such as no-export, or communities such as 65010:100.
	Communities list[scalar[string]] `key:"communities"`
	// Times that our own AS number is put before the path once more: 0 to 10. Default: 0.
	Prepend scalar[int] `key:"prepend" form:"0..10"`
	// Tell routers the number of ready endpoints of each machine as link bandwidth, for weighted ECMP; BIRD weighs all alike. Default: false.
	Weighted scalar[bool] `key:"weighted"`
}

// rawLengths is a prefix length for each family.
type rawLengths struct {
	mapped

	// Length for IPv4: 0 to 32.
	IPv4 scalar[int] `key:"ipv4" form:"1..32"`
	// Length for IPv6: 0 to 128.
	IPv6 scalar[int] `key:"ipv6" form:"1..128"`
}
