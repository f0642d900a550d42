package kubelet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"

	"plinth.dev/plinth/test/lab/netns"
)

const podBridge = "pods"

// bridge makes the machine's bridge for pods, whose addresses are their gateways. Its
// hardware address is its own, as with CNI plugins: else it would have that of its lowest
// port and change it with the pods that come and go, and the others' neighbour entries
// of their gateway would be wrong. It does nothing when all is there.
func (k *kubelet) bridge(cidrs []netip.Prefix) error {
	lines := []string{"link set " + podBridge + " up"}
	for _, c := range cidrs {
		nodad := ""
		if c.Addr().Is6() {
			nodad = " nodad"
		}
		lines = append(lines, fmt.Sprintf("addr replace %s/%d dev %s%s", host(c, 1), c.Bits(), podBridge, nodad))
	}
	if netns.IP(k.Netns, lines...) == nil {
		return nil
	}
	return netns.IP(k.Netns, append([]string{"link add " + podBridge + " address " + bridgeAddress(k.Node) + " type bridge"}, lines...)...)
}

// bridgeAddress is a hardware address for a machine's bridge: locally administered, of
// one interface, and the same each time.
func bridgeAddress(node string) string {
	h := fnv.New32a()
	h.Write([]byte(node))
	a := binary.BigEndian.AppendUint32([]byte{0x02, 0x00}, h.Sum32())
	return net.HardwareAddr(a).String()
}

// join makes a pod's namespace and plugs it into the bridge. A pod has addresses
// without a subnet, so that all it sends passes the machine, where kube-proxy's
// rules are; a bridge alone would carry answers past them.
func (k *kubelet) join(p *pod, cidrs []netip.Prefix) error {
	if err := netns.Delete(p.netns); err != nil { // of an earlier run of this kubelet
		return err
	}
	if err := netns.Add(p.netns); err != nil {
		return err
	}
	port := portName(p.uid)
	// The namespace of an earlier run takes its end of the cable with it only
	// after a while.
	_ = netns.IP(k.Netns, "link delete "+port)
	err := errors.Join(
		netns.Sysctl(p.netns, "net/ipv6/conf/all/accept_dad=0", "net/ipv6/conf/default/accept_dad=0", "net/ipv4/ping_group_range=0 0"),
		netns.IP(k.Netns,
			fmt.Sprintf("link add %s type veth peer name eth0 netns %s", port, p.netns),
			fmt.Sprintf("link set %s master %s up", port, podBridge)))
	if err != nil {
		return err
	}
	lines := []string{"link set eth0 up"}
	for i, a := range p.addresses {
		gateway := host(cidrs[i], 1)
		if a.Is4() {
			lines = append(lines, fmt.Sprintf("addr add %s/32 dev eth0", a),
				fmt.Sprintf("route add %s/32 dev eth0", gateway), fmt.Sprintf("route add default via %s", gateway))
		} else {
			lines = append(lines, fmt.Sprintf("addr add %s/128 dev eth0 nodad", a),
				fmt.Sprintf("route add %s/128 dev eth0", gateway), fmt.Sprintf("route add ::/0 via %s", gateway))
		}
	}
	return netns.IP(p.netns, lines...)
}

// leave removes a pod's namespace and with it its cable, where it has one of its own.
func (k *kubelet) leave(p *pod) error {
	if p.netns == "" {
		return nil
	}
	return netns.Delete(p.netns)
}

// PodNetns is the network namespace of a pod, by that of its machine.
func PodNetns(machine, namespace, name string) string {
	return fmt.Sprintf("%s.pod.%s.%s", machine, namespace, name)
}

// portName is a name for the machine's end of a pod's cable.
func portName(uid string) string {
	h := fnv.New64a()
	h.Write([]byte(uid))
	return fmt.Sprintf("pod%012x", h.Sum64()&0xffffffffffff)
}
