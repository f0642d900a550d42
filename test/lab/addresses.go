package lab

import (
	"fmt"
	"net/netip"
	"slices"
)

// Dual is an address, or a prefix, per family.
type Dual struct{ V4, V6 netip.Addr }

// The networks of every lab. Labs side by side may use the same ones, as they
// share no namespace; only what touches the host differs by slot.
var (
	PodCIDR4     = netip.MustParsePrefix("10.244.0.0/16")
	PodCIDR6     = netip.MustParsePrefix("fd00:244::/48")
	ServiceCIDR4 = netip.MustParsePrefix("10.96.0.0/16")
	ServiceCIDR6 = netip.MustParsePrefix("fd00:96::/112")
	// ClientAddress is where requests of the outside client come from.
	ClientAddress = dual("192.0.2.10", "2001:db8:c::10")
)

const apiPort = 6443

func dual(v4, v6 string) Dual {
	return Dual{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}

// rackSubnet is the subnet of the i-th rack, from 0.
func rackSubnet(i int) (v4, v6 netip.Prefix) {
	return netip.MustParsePrefix(fmt.Sprintf("10.10.%d.0/24", i+1)),
		netip.MustParsePrefix(fmt.Sprintf("2001:db8:10:%d::/64", i+1))
}

// rackAddress is host h of the i-th rack; both families end in the same digits.
func rackAddress(i, h int) Dual {
	return dual(fmt.Sprintf("10.10.%d.%d", i+1, h), fmt.Sprintf("2001:db8:10:%d::%d", i+1, h))
}

// machineHost is the host number of the m-th machine of a rack, routerHost that of its k-th router,
// otherHost that of its n-th other host.
func machineHost(m int) int { return 11 + m }
func routerHost(k int) int  { return 1 + k }
func otherHost(n int) int   { return 101 + n }

// linkAddress is one end, 0 or 1, of the n-th link between routers and client.
func linkAddress(n, end int) Dual {
	return dual(fmt.Sprintf("10.0.%d.%d", n/128, n%128*2+end), fmt.Sprintf("2001:db8:1:%x::%d", n, end+1))
}

// managementAddress is host h of the out-of-band network; the control plane is host 1.
func managementAddress(slot, h int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(slot), byte(h)})
}

// hostLinkAddress is one end of the link between the host (2) and the control plane (1).
func hostLinkAddress(slot, end int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 19, byte(slot), byte(end)})
}

// staticPodCIDRs are the pod CIDRs that the lab itself gives to the n-th machine
// of a topology with StaticPods.
func staticPodCIDRs(n int) (v4, v6 netip.Prefix) {
	return netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n+1)),
		netip.MustParsePrefix(fmt.Sprintf("fd00:244:0:%x::/64", n+1))
}

// MachineAddress returns the addresses of a machine in its rack.
func (t Topology) MachineAddress(name string) Dual {
	for i, rack := range t.Racks {
		for m, machine := range rack.Machines {
			if machine.Name == name {
				return rackAddress(i, machineHost(m))
			}
		}
	}
	return Dual{}
}

// RouterAddress returns the addresses of a router in a rack.
func (t Topology) RouterAddress(router, rack string) Dual {
	for i, r := range t.Racks {
		for k, name := range r.Routers {
			if name == router && r.Name == rack {
				return rackAddress(i, routerHost(k))
			}
		}
	}
	return Dual{}
}

// HostAddress returns the addresses of a host that is no machine in its rack.
func (t Topology) HostAddress(name string) Dual {
	for i, rack := range t.Racks {
		if n := slices.Index(rack.Hosts, name); n >= 0 {
			return rackAddress(i, otherHost(n))
		}
	}
	return Dual{}
}

// link is a cable between two routers, or between a router (a) and the client (b).
type link struct {
	a, b         string
	addrA, addrB Dual
}

func (t Topology) links() []link {
	var list []link
	add := func(a, b string) {
		n := len(list)
		list = append(list, link{a, b, linkAddress(n, 0), linkAddress(n, 1)})
	}
	for i, r := range t.Routers {
		for _, other := range t.Routers[i+1:] {
			add(r.Name, other.Name)
		}
	}
	for _, r := range t.Routers {
		add(r.Name, clientHost)
	}
	return list
}

// neighbours are the links of one router, turned so that it is end a.
func (t Topology) neighbours(router string) []link {
	var list []link
	for _, l := range t.links() {
		if l.b == router {
			l = link{l.b, l.a, l.addrB, l.addrA}
		}
		if l.a == router {
			list = append(list, l)
		}
	}
	return list
}
