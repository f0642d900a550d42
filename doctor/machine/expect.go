package machine

import (
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
)

// Expected is the state of a machine that an inventory expects, as far as a check reads it.
type Expected struct {
	Machine    string         `json:"machine"`
	Addresses  []netip.Addr   `json:"addresses"`
	Mode       inventory.Mode `json:"mode,omitempty"` // how pods reach each other
	Sessions   []Session      `json:"sessions,omitempty"`
	Pools      []Pool         `json:"pools,omitempty"`
	Links      []Link         `json:"links,omitempty"`      // on which the machine answers for VIPs
	Neighbours int            `json:"neighbours,omitempty"` // machines of its subnets
}

// Session is one with a router.
type Session struct {
	Router   string     `json:"router"`
	Address  netip.Addr `json:"address"`
	Port     uint16     `json:"port"`
	Local    netip.Addr `json:"local"`
	BFD      bool       `json:"bfd,omitempty"`
	Password bool       `json:"password,omitempty"` // there is one: what it is nobody says here
	Secured  bool       `json:"secured,omitempty"`  // by the TTL
	External bool       `json:"external,omitempty"` // the router has another ASN
	Hops     uint8      `json:"hops,omitempty"`     // that it may be away; 0: it is on the link
}

// Pool is one with its addresses.
type Pool struct {
	Name    string            `json:"name"`
	Ranges  []inventory.Range `json:"ranges"`
	Exclude []inventory.Range `json:"exclude,omitempty"`
}

// Link is a subnet on which machines answer for VIPs.
type Link struct {
	Subnet   netip.Prefix `json:"subnet"`
	Self     netip.Addr   `json:"self"`
	Machines []netip.Addr `json:"machines,omitempty"` // the others
}

// Expect reduces an inventory to what it expects of a machine.
func Expect(inv *inventory.Inventory, machine inventory.Machine) *Expected {
	expected := &Expected{Machine: machine.Name, Addresses: machine.Addresses, Mode: inv.PodNetwork.Mode}
	for _, s := range inv.Sessions(machine) {
		expected.Sessions = append(expected.Sessions, Session{Router: s.Router, Address: s.RouterAddr, Port: s.Port, Local: s.Local,
			BFD: s.BFD != inventory.BFDProfile{}, Password: s.Password != inventory.SecretKey{}, Secured: s.TTLSecurity, External: !s.IBGP(), Hops: s.Multihop})
	}
	for _, p := range inv.Pools {
		expected.Pools = append(expected.Pools, Pool{Name: p.Name, Ranges: p.Ranges, Exclude: p.Exclude})
	}
	for _, l := range inv.LinksOf(machine.Name) {
		link := Link{Subnet: l.Subnet}
		for _, other := range l.Machines {
			if other.Name == machine.Name {
				link.Self = other.Addr
				continue
			}
			link.Machines = append(link.Machines, other.Addr)
		}
		expected.Links = append(expected.Links, link)
	}
	for other := range inv.Machines() {
		if other.Name != machine.Name && inv.SameSubnet(machine, other) {
			expected.Neighbours++
		}
	}
	return expected
}

// Find is the machine of an inventory that has one of these addresses, or else this name.
func Find(inv *inventory.Inventory, name string, addresses []Address) (inventory.Machine, bool) {
	for m := range inv.Machines() {
		if slices.ContainsFunc(addresses, func(a Address) bool { return slices.Contains(m.Addresses, a.Prefix.Addr()) }) {
			return m, true
		}
	}
	return inv.Machine(name)
}

// Covers tells whether VIPs may be given from the pool that are this address.
func (p Pool) Covers(a netip.Addr) bool {
	inside := func(r inventory.Range) bool { return r.Contains(a) }
	return slices.ContainsFunc(p.Ranges, inside) && !slices.ContainsFunc(p.Exclude, inside)
}

// poolOf is the pool that has an address.
func (e *Expected) poolOf(a netip.Addr) (Pool, bool) {
	if e == nil {
		return Pool{}, false
	}
	i := slices.IndexFunc(e.Pools, func(p Pool) bool { return p.Covers(a) })
	if i < 0 || slices.Contains(e.Addresses, a) {
		return Pool{}, false
	}
	return e.Pools[i], true
}

// sessions returns the sessions with routers; nil has none.
func (e *Expected) sessions() []Session {
	if e == nil {
		return nil
	}
	return e.Sessions
}

// links returns the links on which the machine answers for VIPs; nil has none.
func (e *Expected) links() []Link {
	if e == nil {
		return nil
	}
	return e.Links
}

// hasIPv6 tells whether the machine has an address of IPv6, or answers for such VIPs.
func (e *Expected) hasIPv6() bool {
	return e != nil && (slices.ContainsFunc(e.Addresses, netip.Addr.Is6) || slices.ContainsFunc(e.Links, func(l Link) bool { return l.Subnet.Addr().Is6() }))
}
