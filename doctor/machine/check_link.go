package machine

import (
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/doctor"
)

// whose tells of which host an answer is.
const whose = "the switch's table of MACs says behind which port it is"

// answersFor finds something in who answers for addresses that are so.
func answersFor(mine bool, find func(Facts, Answer) []doctor.Finding) func(Facts) []doctor.Finding {
	return func(f Facts) (out []doctor.Finding) {
		for _, a := range f.Answers {
			if f.Expected != nil && slices.Contains(f.Expected.Addresses, a.Address) == mine && !f.isProxy(a) {
				out = append(out, find(f, a)...)
			}
		}
		return out
	}
}

// machineAddressTaken tells of hosts of any kind: a machine that has the address of another one is in the way as well.
var machineAddressTaken = answersFor(true, func(_ Facts, a Answer) []doctor.Finding {
	return []doctor.Finding{found([]doctor.Mend{say("give that host another address; " + whose)}, "%s of %s is answered for by another host, too: %s", a.Address, a.Interface, a.MAC)}
})

var poolAddressAnswered = answersFor(false, func(f Facts, a Answer) []doctor.Finding {
	pool, has := f.Expected.poolOf(a.Address)
	if !has || a.Machine {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{say("give that host another address, or put " + a.Address.String() + " into exclude of pool " + pool.Name + "; " + whose)},
		"%s of pool %s is answered for on %s by a host that is no machine of the inventory: %s", a.Address, pool.Name, a.Interface, a.MAC)}
})

func linkUnusable(f Facts) (out []doctor.Finding) {
	for _, l := range f.Unusable {
		out = append(out, found([]doctor.Mend{say("have the pool's VIPs announced over BGP (advertise: {via: bgp}), or give the machine an address of an Ethernet interface in " + l.Subnet.String())},
			"nobody can answer for VIPs of %s on this machine: %s", l.Subnet, l.Detail))
	}
	return out
}

// isProxy tells whether who answers does so for nearly all that is asked for, or for many, or is a router that answers for several addresses. Linux
// lets up to 0.8 seconds pass before it answers for others (proxy_delay), so that some of its answers are missed.
func (f Facts) isProxy(answer Answer) bool {
	answered, asked := 0, 0
	for _, other := range f.Answers {
		if _, has := f.Expected.poolOf(other.Address); has && !other.Machine && other.MAC == answer.MAC && other.Interface == answer.Interface && other.Address.Is6() == answer.Address.Is6() {
			answered++
		}
	}
	for _, some := range f.Asked {
		if some.Interface == answer.Interface && some.IPv6 == answer.Address.Is6() {
			asked = some.Addresses
		}
	}
	router := slices.ContainsFunc(f.Routers, func(r Router) bool { return r.MAC == answer.MAC })
	return answered >= 2 && router || answered >= 3 && answered*10 >= asked*9 || answered >= 8
}

func proxyARP(f Facts) (out []doctor.Finding) {
	told := map[string]bool{}
	for _, answer := range f.Answers {
		key := fmt.Sprint(answer.Interface, answer.MAC, answer.Address.Is6())
		if answer.Machine || told[key] || !f.isProxy(answer) {
			continue
		}
		told[key] = true
		out = append(out, found([]doctor.Mend{say("switch proxy ARP off there (of Linux proxy_arp and proxy_ndp, of switches local proxy ARP or ARP suppression): Plinth gives no VIP that another host answers for; " + whose)},
			"%s answers on %s for one address of pools after the other, such as %s, as proxy ARP does", answer.MAC, answer.Interface, answer.Address))
	}
	return out
}

// eachRouter finds something in routers, which have sessions with the machine.
func eachRouter(find func(Session, Router) []doctor.Finding) func(Facts) []doctor.Finding {
	return func(f Facts) (out []doctor.Finding) {
		for _, s := range f.Expected.sessions() {
			i := slices.IndexFunc(f.Routers, func(r Router) bool { return r.Name == s.Router && r.Address == s.Address })
			at, has := f.has(s.Local)
			if i >= 0 && (has && at.Up && at.Carrier || s.Address.Zone() != "") { // else other findings tell why it is not reached
				out = append(out, find(s, f.Routers[i])...)
			}
		}
		return out
	}
}

// getRoute asks the kernel which way it takes to a router, from where the session begins.
func getRoute(s Session, to netip.Addr) doctor.Mend {
	if !s.Local.IsValid() {
		return run("ip route get", to.WithZone("").String())
	}
	return run("ip route get", to.WithZone("").String(), "from", s.Local.WithZone("").String())
}

var routerUnreachable = eachRouter(func(s Session, r Router) []doctor.Finding {
	if r.Device != "" {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{getRoute(s, r.Address), say("and give the machine an address in the router's subnet, or a route there, by its network configuration")}, "there is no route to router %s, %s", r.Name, r.Address)}
})

var routerElsewhere = eachRouter(func(s Session, r Router) []doctor.Finding {
	if r.OnLink == "" || r.Device == "" || r.OnLink == r.Device {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{getRoute(s, r.Address), say("and take away the route that leads there, if nobody needs it: the subnet of " + r.OnLink + " has the router")},
		"what is sent to router %s, %s, leaves by %s, and the interface in its subnet is %s", r.Name, r.Address, r.Device, r.OnLink)}
})

var routerNotAdjacent = eachRouter(func(s Session, r Router) []doctor.Finding {
	if !r.Gateway.IsValid() || s.Hops > 0 || !s.External || r.OnLink != "" {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{say("give the machine an address in the router's subnet; or write multihop into the inventory, and have the router take sessions over several hops (plinth router-config " + r.Name + ")")},
		"router %s, %s, is behind %s, and a session of BGP between two ASNs takes one hop unless it is told otherwise", r.Name, r.Address, r.Gateway)}
})

var routerNotAnswering = eachRouter(func(_ Session, r Router) []doctor.Finding {
	if !r.Asked || r.MAC != "" {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{run("ip neighbour show", r.Address.WithZone("").String()), say("and see whether the router is up, has that address, and is in the VLAN of " + r.OnLink)},
		"router %s, %s, does not answer on %s", r.Name, r.Address, r.OnLink)}
})

// speaks returns the step that has a router speak BGP with the machine.
func speaks(s Session) []doctor.Mend {
	return []doctor.Mend{say("load on the router what plinth router-config " + s.Router + " prints, which has " + s.Local.String() + " as a neighbour")}
}

var routerRefuses = eachRouter(func(s Session, r Router) []doctor.Finding {
	if r.Connect != Refused {
		return nil
	}
	return []doctor.Finding{found(speaks(s), "router %s refuses connections to %s: no BGP is served there", r.Name, netip.AddrPortFrom(r.Address, s.Port))}
})

var routerFiltered = eachRouter(func(s Session, r Router) []doctor.Finding {
	if r.Connect != Silent || r.Asked && r.MAC == "" {
		return nil
	}
	mend := append(speaks(s), say("and see whether the router wants a password, of which the inventory has none (passwordFrom), or a packet filter of the machine, of the router or between them drops TCP to port", netip.AddrPortFrom(r.Address, s.Port).String()))
	return []doctor.Finding{found(mend, "router %s does not answer a connection to %s", r.Name, netip.AddrPortFrom(r.Address, s.Port))}
})
