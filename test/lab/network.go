package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/test/lab/netns"
)

// routing is what every host that forwards packets needs.
var routing = []string{
	"net/ipv4/ip_forward=1",
	"net/ipv6/conf/all/forwarding=1",
	"net/ipv4/fib_multipath_hash_policy=1", // by layer 4: one client reaches all next hops
	"net/ipv6/fib_multipath_hash_policy=1",
	"net/ipv4/conf/all/send_redirects=0",
	"net/ipv4/conf/default/send_redirects=0",
	"net/ipv4/icmp_ratemask=0", // whoever sends what goes no further is told, each time
	"net/ipv6/icmp/ratemask=0",
}

// everywhere makes addresses usable at once.
var everywhere = []string{
	"net/ipv6/conf/all/accept_dad=0",
	"net/ipv6/conf/default/accept_dad=0",
	"net/ipv6/conf/all/accept_redirects=0",
	"net/ipv6/conf/default/accept_redirects=0",
	"net/ipv6/conf/all/keep_addr_on_down=1", // as with IPv4: who takes a link down and up again has its address
	"net/ipv6/conf/default/keep_addr_on_down=1",
	"net/ipv6/conf/all/accept_ra=0", // all addresses and routes are given by hand
	"net/ipv6/conf/default/accept_ra=0",
	"net/ipv4/ping_group_range=0 0",
}

// buildNetwork makes all namespaces and cables. Every namespace is named before
// anything is put into it, so that Down finds it.
func (l *Lab) buildNetwork() error {
	for _, host := range l.Hosts() {
		if err := netns.Add(l.Namespace(host)); err != nil {
			return err
		}
		if err := netns.Sysctl(l.Namespace(host), everywhere...); err != nil {
			return err
		}
	}
	steps := []func() error{
		l.buildSwitch, l.buildRacks, l.buildLinks, l.buildManagement, l.buildHostLink, l.buildClientRoutes,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if l.Topology.StaticPods {
		return l.buildPodRoutes()
	}
	return nil
}

// buildSwitch makes one bridge a rack, and one for management.
func (l *Lab) buildSwitch() error {
	var lines []string
	for _, name := range append([]string{managementBridge}, rackBridges(l.Topology)...) {
		lines = append(lines, "link add "+name+" type bridge", "link set "+name+" up")
	}
	return netns.IP(l.Namespace(switchHost), lines...)
}

const managementBridge = "mgmt"

func rackBridge(rack string) string { return "rack-" + rack }

func rackBridges(t Topology) []string {
	var names []string
	for _, r := range t.Racks {
		names = append(names, rackBridge(r.Name))
	}
	return names
}

// RackInterface is the interface of a machine, or of another host, in its rack.
const RackInterface = "eth0"

// advertised is the address by which a router at home makes itself known to its hosts: a link-local one, as router advertisements
// have it (RFC 4861, section 4.2).
const advertised = "fe80::1"

// buildRacks puts machines and routers on the subnets of their racks.
func (l *Lab) buildRacks() error {
	for i, rack := range l.Topology.Racks {
		var gateways4, gateways6 []string
		for k, router := range rack.Routers {
			at := rackAddress(i, routerHost(k))
			if err := l.plug(router, "rack"+fmt.Sprint(i), rackBridge(rack.Name), routerPort(router, i), at); err != nil {
				return err
			}
			if err := netns.Sysctl(l.Namespace(router), routing...); err != nil {
				return err
			}
			gateways4 = append(gateways4, "nexthop via "+at.V4.String())
			gateway6 := "nexthop via " + at.V6.String()
			if !slices.ContainsFunc(l.Topology.speakers(), func(r Router) bool { return r.Name == router }) {
				gateway6 = fmt.Sprintf("nexthop via %s dev %s", advertised, RackInterface)
				if err := netns.IP(l.Namespace(router), fmt.Sprintf("addr add %s/64 dev rack%d nodad", advertised, i)); err != nil {
					return err
				}
			}
			gateways6 = append(gateways6, gateway6)
		}
		defaults := []string{"route add default " + strings.Join(gateways4, " "), "route add ::/0 " + strings.Join(gateways6, " ")}
		for m, machine := range rack.Machines {
			if err := l.plug(machine.Name, RackInterface, rackBridge(rack.Name), machine.Name, rackAddress(i, machineHost(m))); err != nil {
				return err
			}
			err := errors.Join(netns.Sysctl(l.Namespace(machine.Name), routing...), netns.IP(l.Namespace(machine.Name), defaults...))
			if err != nil {
				return err
			}
		}
		for n, host := range rack.Hosts {
			if err := l.plug(host, RackInterface, rackBridge(rack.Name), host, rackAddress(i, otherHost(n))); err != nil {
				return err
			}
			if err := netns.IP(l.Namespace(host), defaults...); err != nil {
				return err
			}
		}
	}
	return nil
}

// routerPort is the port of a router at the bridge of the i-th rack: it may be on several.
func routerPort(router string, i int) string { return fmt.Sprintf("%s.%d", router, i) }

// plug joins a host to a bridge of the switch and gives it addresses.
func (l *Lab) plug(host, device, bridge, port string, at Dual) error {
	err := netns.IP("",
		fmt.Sprintf("link add %s netns %s type veth peer name %s netns %s", device, l.Namespace(host), port, l.Namespace(switchHost)))
	if err != nil {
		return err
	}
	if err := netns.IP(l.Namespace(switchHost), "link set "+port+" master "+bridge+" up"); err != nil {
		return err
	}
	lines := []string{fmt.Sprintf("addr add %s/24 dev %s", at.V4, device), "link set " + device + " up"}
	if at.V6.IsValid() {
		lines = append(lines, fmt.Sprintf("addr add %s/64 dev %s nodad", at.V6, device))
	}
	return netns.IP(l.Namespace(host), lines...)
}

// AddLink puts hosts of racks on a subnet of their own besides, with an address each, at an interface of that name.
func (l *Lab) AddLink(name string, addrs map[string]netip.Addr) error {
	if err := netns.IP(l.Namespace(switchHost), "link add "+name+" type bridge", "link set "+name+" up"); err != nil {
		return err
	}
	l.link = map[string]string{}
	for host, addr := range addrs {
		l.link[host] = name + "." + host
		if err := l.plug(host, name, name, l.link[host], Dual{V4: addr}); err != nil {
			return err
		}
	}
	return nil
}

// RemoveLink undoes AddLink.
func (l *Lab) RemoveLink(name string) error {
	var failed []error
	for host := range l.link {
		failed = append(failed, netns.IP(l.Namespace(host), "link del "+name))
	}
	l.link = nil
	return errors.Join(append(failed, netns.IP(l.Namespace(switchHost), "link del "+name))...)
}

// linkInterface is a host's end of the link to another one.
func linkInterface(other string) string { return "to-" + other }

// buildLinks joins the routers with each other and with the client.
func (l *Lab) buildLinks() error {
	for _, k := range l.Topology.links() {
		err := netns.IP("", fmt.Sprintf("link add %s netns %s type veth peer name %s netns %s",
			linkInterface(k.b), l.Namespace(k.a), linkInterface(k.a), l.Namespace(k.b)))
		if err != nil {
			return err
		}
		for _, end := range []struct {
			host, device string
			at           Dual
		}{{k.a, linkInterface(k.b), k.addrA}, {k.b, linkInterface(k.a), k.addrB}} {
			err := netns.IP(l.Namespace(end.host),
				fmt.Sprintf("addr add %s/31 dev %s", end.at.V4, end.device),
				fmt.Sprintf("addr add %s/64 dev %s nodad", end.at.V6, end.device),
				"link set "+end.device+" up")
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// buildManagement joins machines and control plane out of band.
func (l *Lab) buildManagement() error {
	slot := l.record.Slot
	if err := l.plug(controlHost, "mgmt0", managementBridge, controlHost, Dual{V4: managementAddress(slot, 1)}); err != nil {
		return err
	}
	if l.Topology.Real {
		// Whoever runs Kubernetes' own tests asks the API server from where the client is.
		if err := l.plug(clientHost, "mgmt0", managementBridge, clientHost+".m", Dual{V4: managementAddress(slot, 2)}); err != nil {
			return err
		}
	}
	for n, m := range l.Topology.Machines() {
		at := Dual{V4: managementAddress(slot, 11+n)}
		if err := l.plug(m.Name, "mgmt0", managementBridge, m.Name+".m", at); err != nil {
			return err
		}
	}
	return nil
}

// buildHostLink is the one cable between the host and the lab.
func (l *Lab) buildHostLink() error {
	slot, device := l.record.Slot, hostLink(l.record.Slot)
	err := netns.IP("", fmt.Sprintf("link add %s type veth peer name host netns %s", device, l.Namespace(controlHost)))
	if err != nil {
		return err
	}
	if err := netns.IP(l.Namespace(controlHost), fmt.Sprintf("addr add %s/30 dev host", hostLinkAddress(slot, 1)), "link set host up"); err != nil {
		return err
	}
	return netns.IP("",
		"link set "+device+" addrgenmode none",
		fmt.Sprintf("addr add %s/30 dev %s", hostLinkAddress(slot, 2), device),
		"link set "+device+" up")
}

// buildClientRoutes sends all that the client says to every router in turn, by flow.
func (l *Lab) buildClientRoutes() error {
	client := l.Namespace(clientHost)
	if err := netns.Sysctl(client, routing...); err != nil {
		return err
	}
	v4 := "route add default src " + ClientAddress.V4.String()
	v6 := "route add ::/0 src " + ClientAddress.V6.String()
	for _, r := range l.Topology.Routers {
		for _, k := range l.Topology.neighbours(r.Name) {
			if k.b == clientHost {
				v4 += " nexthop via " + k.addrA.V4.String()
				v6 += " nexthop via " + k.addrA.V6.String()
			}
		}
	}
	return netns.IP(client,
		"addr add "+ClientAddress.V4.String()+"/32 dev lo",
		"addr add "+ClientAddress.V6.String()+"/128 dev lo nodad",
		v4, v6)
}

// buildPodRoutes does what a CNI would: every machine and router of a rack
// reaches the pods of each machine in it.
func (l *Lab) buildPodRoutes() error {
	n := 0
	for i, rack := range l.Topology.Racks {
		for m, machine := range rack.Machines {
			pods4, pods6 := staticPodCIDRs(n)
			via := rackAddress(i, machineHost(m))
			n++
			for _, host := range append(rack.Routers, rackMates(rack, machine.Name)...) {
				err := netns.IP(l.Namespace(host),
					fmt.Sprintf("route add %s via %s", pods4, via.V4),
					fmt.Sprintf("route add %s via %s", pods6, via.V6))
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func rackMates(r Rack, machine string) []string {
	var names []string
	for _, m := range r.Machines {
		if m.Name != machine {
			names = append(names, m.Name)
		}
	}
	return names
}
