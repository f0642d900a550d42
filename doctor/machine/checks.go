package machine

import (
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/doctor"
)

// check is one thing that is looked for.
type check struct {
	kind  doctor.Kind
	means string // a row of docs/reference/doctor-machine.md
	find  func(Facts) []doctor.Finding
}

// checks are all of them, in the order of their findings: what comes first keeps the most from working. AdvertisementsIgnored comes before
// ForwardingOff: who turns forwarding on has the kernel forget default routes that it learned by an accept_ra of 1 (rt6_purge_dflt_routers).
var checks = []check{
	{"MachineAddressMissing", "No interface has an address that the inventory gives the machine: sessions begin there, and links are told by it.", machineAddressMissing},
	{"MachineAddressTaken", "Another host of the link answers for the machine's own address of IPv4. Of IPv6 the kernel finds that itself.", machineAddressTaken},
	{"LinkDown", "An interface with an address of the machine is down, or has no carrier.", linkDown},
	{"IPv6Missing", "The kernel has no IPv6, and the machine has an address of it in the inventory.", ipv6Missing},
	{"PacketSocketsMissing", "The kernel has no packet sockets (`af_packet`), and VIPs are to be answered for on a link.", packetSocketsMissing},
	{"LinkUnusable", "VIPs are to be answered for on a link of the machine, and its interface there is not Ethernet, such as WireGuard, IPoIB or PPP.", linkUnusable},
	{"TCPMD5Missing", "The kernel has no TCP MD5 signatures, and a session has a password.", md5Missing},
	{"VXLANMissing", "The kernel has no VXLAN, and the pod network is an overlay.", vxlanMissing},
	{"KernelTooOld", "The kernel is older than 5.2, takes no route of IPv4 by way of a link-local router, and is to have one.", kernelTooOld},
	{"AdvertisementsIgnored", "A machine that forwards ignores router advertisements unless `accept_ra` is 2, and its default route, which was learned from one, runs out.", advertisementsIgnored},
	{"ForwardingOff", "The kernel does not forward packets, or not those that come in by an interface of the machine's addresses: none reaches a pod.", forwardingOff},
	{"ReversePathStrict", "`rp_filter` drops what comes in by another interface than an answer would leave by, as it does where VIPs are announced to several routers. It is no trouble of a machine with one interface and one router at most.", reversePathStrict},
	{"HashByAddress", "Routes over several routers choose one by the addresses alone: all connections between two hosts take the same.", hashByAddress},
	{"IPv6Disabled", "IPv6 is off by a sysctl, and the machine has an address of it in the inventory.", ipv6Disabled},
	{"AnnouncementsDropped", "The kernel drops gratuitous ARP or unsolicited neighbour advertisements: when a VIP moves, this machine sends to the one that had it, until its cache forgets.", announcementsDropped},
	{"NeighbourTableSmall", "The kernel keeps fewer neighbours than the machine will have: machines of its subnets, and pods.", neighbourTableSmall},
	{"ConntrackNearlyFull", "The table of tracked connections is nine tenths full. When it is full, the kernel drops new connections.", conntrackNearlyFull},
	{"PortHeld", "Another program listens on a port that Plinth needs: 10258 of the controller, 10268 of the agent, or 3784 and 4784 of BFD.", portHeld},
	{"SessionHeldByOther", "Another BGP speaker of the machine has a connection with a router of the inventory: a router has one session with an address.", sessionHeldByOther},
	{"VIPOnInterface", "An interface has an address of a pool, so that the kernel answers for it: something is left over of another balancer, or runs still. `kube-ipvs0` and `kube-dummy-if` are of kube-proxy and kube-router, and do not count. No command takes the address away: where a Service has it, connections go by it though no program has a socket there.", vipOnInterface},
	{"IPVSAnswers", "kube-proxy in mode `ipvs` has every VIP on `kube-ipvs0`, or kube-router on `kube-dummy-if`, and without `strictARP` the kernel answers for them on a link.", ipvsAnswers},
	{"ProxyARP", "One host answers on a link for nearly all addresses of pools that were asked for, or for eight, or a router for two: it does so for others. It is told once, in place of `PoolAddressAnswered` and `MachineAddressTaken`.", proxyARP},
	{"PoolAddressAnswered", "A host that is no machine of the inventory answers on a link for an address of a pool.", poolAddressAnswered},
	{"RouterUnreachable", "The kernel has no route to a router of the machine.", routerUnreachable},
	{"RouterElsewhere", "What is sent to a router leaves by another interface than the one in the router's subnet.", routerElsewhere},
	{"RouterNotAdjacent", "A router is reached by way of another one, and its session is for one hop.", routerNotAdjacent},
	{"RouterNotAnswering", "A router does not answer ARP or neighbour discovery on the link.", routerNotAnswering},
	{"RouterRefuses", "A router refuses connections to its port of BGP.", routerRefuses},
	{"RouterFiltered", "A router answers on the link, or is routed to, and a connection to its port of BGP gets no answer. It is not tried where a BGP speaker of the machine may be about to connect, or the session has a password or `ttlSecurity`, of which routers drop what they do not expect.", routerFiltered},
	{"ClockUnsynchronized", "The kernel says that no program keeps its clock (`STA_UNSYNC`), and none runs that would (chronyd, ntpd, systemd-timesyncd). Certificates and leases need one that is right.", clockUnsynchronized},
}

// Examine returns the findings of all checks, the one that keeps the most from working first.
func Examine(facts Facts) []doctor.Finding {
	out := []doctor.Finding{}
	for _, check := range checks {
		found := check.find(facts)
		for i := range found {
			found[i].Kind, found[i].Object = check.kind, facts.object()
			found[i] = facts.placed(found[i]).Printable()
		}
		slices.SortStableFunc(found, func(a, b doctor.Finding) int { return strings.Compare(a.Message, b.Message) })
		out = append(out, found...)
	}
	return out
}

// placed says of commands that they are for the host, where they were found in a container.
func (f Facts) placed(finding doctor.Finding) doctor.Finding {
	finding.Mend = slices.Clone(finding.Mend)
	for i, m := range finding.Mend {
		if f.Container && m.Run != "" {
			finding.Mend[i] = say("on the host: " + m.Run)
		}
	}
	return finding
}

// found is a finding; of what kind and of which machine, Examine says.
func found(mend []doctor.Mend, format string, args ...any) doctor.Finding {
	return doctor.Finding{Message: fmt.Sprintf(format, args...), Mend: mend}
}

// run is a command for sh, on the machine, as root.
func run(words ...string) doctor.Mend { return doctor.Mend{Run: strings.Join(words, " ")} }

// say returns a step that is to be done by hand.
func say(words ...string) doctor.Mend { return doctor.Mend{Say: strings.Join(words, " ")} }
