package machine

// troubles are ways in which the healthy machine can be in trouble, with the kinds that are found then, and a part of what is printed. Those
// with no kind are not to be taken for one.
var troubles = []struct {
	name string
	make func(*Facts)
	want string
	says string
}{
	{"a kernel that forwards nothing", func(f *Facts) { f.setting("net/ipv4/ip_forward", "0", "1") }, "ForwardingOff", "sysctl -w net.ipv4.ip_forward=1\n    echo net.ipv4.ip_forward=1 >>/etc/sysctl.d/90-plinth.conf"},
	{"an interface that does not forward", func(f *Facts) { f.setting("net/ipv4/conf/eth0/forwarding", "0", "1") }, "ForwardingOff", "sysctl -w net.ipv4.conf.eth0.forwarding=1"},
	{"nothing of IPv6", func(f *Facts) { f.setting("net/ipv6/conf/all/forwarding", "0", "1") }, "ForwardingOff", "net.ipv6.conf.all.forwarding=1"},
	{"a strict rp_filter on a VLAN", func(f *Facts) { f.setting("net/ipv4/conf/eth0.100/rp_filter", "1", "2") }, "ReversePathStrict", "sysctl -w net/ipv4/conf/eth0.100/rp_filter=2\n"},
	{"router advertisements that are ignored", func(f *Facts) { f.setting("net/ipv6/conf/eth0/accept_ra", "1", "2") }, "AdvertisementsIgnored", "accept_ra=2"},
	{"one router of two", func(f *Facts) { f.setting("net/ipv4/fib_multipath_hash_policy", "0", "1") }, "HashByAddress", "fib_multipath_hash_policy=1"},
	{"IPv6 that is off", func(f *Facts) { f.Sysctls["net/ipv6/conf/eth0/disable_ipv6"] = "1" }, "IPv6Disabled", "sysctl -w net.ipv6.conf.eth0.disable_ipv6=0"},
	{"gratuitous ARP that is dropped", func(f *Facts) { f.Sysctls["net/ipv4/conf/eth0/drop_gratuitous_arp"] = "1" }, "AnnouncementsDropped", "sysctl -w net.ipv4.conf.eth0.drop_gratuitous_arp=0"},
	{"advertisements that are dropped", func(f *Facts) { f.Sysctls["net/ipv6/conf/eth0/drop_unsolicited_na"] = "1" }, "AnnouncementsDropped", "drop_unsolicited_na=0"},
	{"a table of neighbours that is small", func(f *Facts) { f.Expected.Neighbours = 900 }, "NeighbourTableSmall NeighbourTableSmall", "sysctl -w net.ipv4.neigh.default.gc_thresh3=4096\n"},
	{"connections", func(f *Facts) { f.Sysctls[conntrackCount] = "250000" }, "ConntrackNearlyFull", "sysctl -w net.netfilter.nf_conntrack_max=524288"},
	{"the port of the controller", func(f *Facts) { f.Sockets[1].Program = "hcloud-cloud-controller-manager" }, "PortHeld", "hcloud-cloud-controller-manager (process 4711) listens on port TCP 10258, which is for the controller"},
	{"the port of the agent", func(f *Facts) { f.Sockets[0] = socket("TCP", "[::]:10268", "", "exporter") }, "PortHeld", "TCP 10268, which is for the agent"},
	{"the port of BFD", func(f *Facts) { f.Sockets[3].Program = "bfdd" }, "PortHeld", "UDP 3784, which is for BFD"},
	{"another session", func(f *Facts) { f.Sockets[2].Program = "bgpd" }, "SessionHeldByOther", "with router tor, 192.168.1.1"},
	{"a session that the router began", func(f *Facts) {
		f.Sockets[2] = socket("TCP", "192.168.1.11:179", "192.168.1.1:50000", "bird")
		f.Sockets = append(f.Sockets, socket("TCP", "0.0.0.0:179", "", "bird"))
	}, "SessionHeldByOther", "take its session out of the configuration of bird"},
	{"another speaker", func(f *Facts) { f.Sockets = append(f.Sockets, socket("TCP", "0.0.0.0:179", "", "bird")) }, "SpeakerListens", "bird (process 4711) listens on port 179"},

	{"programs that are not known", func(f *Facts) {
		for i := range f.Sockets {
			f.Sockets[i].Program, f.Sockets[i].PID = "", 0
		}
	}, "", ""},
	{"a speaker with other routers, that listens nowhere", func(f *Facts) {
		f.Sockets = append(f.Sockets, socket("TCP", "192.168.1.11:40001", "192.168.1.2:179", "bird"))
	}, "", ""},
	{"a port of BFD that nothing needs", func(f *Facts) {
		f.Sockets[3].Program, f.Expected.Links, f.Expected.Sessions = "bfdd", nil, nil
	}, "", ""},
}
