package onlink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MAC is the link-layer address of an Ethernet interface.
type MAC [6]byte

var broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// String is the address the way ip prints it.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

func (m MAC) isUnicast() bool { return m[0]&1 == 0 && m != MAC{} }

// packet holds the fields of an ARP or neighbour discovery frame.
type packet struct {
	mac     MAC        // the sender's, as caches learn it
	sender  netip.Addr // its address; unspecified in a probe (RFC 5227) and in DAD (RFC 4862)
	asks    netip.Addr // the address that it asks for; invalid: it does not ask
	asserts netip.Addr // the address that it says is at mac; invalid: none
	answers bool       // it is an ARP reply or a neighbour advertisement
}

const (
	etherTypeARP  = 0x0806
	etherTypeIPv6 = 0x86dd
	etherHeader   = 14
)

// parse reads a frame from the Ethernet header on. It reports false of what is no valid ARP
// packet for IPv4 or no valid neighbour solicitation or advertisement.
func parse(frame []byte) (packet, bool) {
	if len(frame) < etherHeader {
		return packet{}, false
	}
	var source MAC
	copy(source[:], frame[6:12])
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherTypeARP:
		return parseARP(frame[etherHeader:])
	case etherTypeIPv6:
		return parseND(source, frame[etherHeader:])
	}
	return packet{}, false
}

// ethernet begins a frame.
func ethernet(to, from MAC, etherType uint16) []byte {
	frame := append(make([]byte, 0, 96), to[:]...)
	frame = append(frame, from[:]...)
	return binary.BigEndian.AppendUint16(frame, etherType)
}

// answerTo is the answer to a packet from the machine at mac, which has the addresses that
// owns tells; nil: it gets none.
func answerTo(packet packet, mac MAC, owns func(netip.Addr) bool) []byte {
	switch {
	case !packet.asks.IsValid() || !owns(packet.asks):
		return nil
	case packet.asks.Is4():
		return arp(packet.mac, arpReply, mac, packet.asks, packet.mac, packet.sender)
	case packet.sender.IsUnspecified():
		return advertisement(allNodesMAC, allNodes, flagOverride, packet.asks, mac)
	}
	return advertisement(packet.mac, packet.sender, flagOverride|flagSolicited, packet.asks, mac)
}

// announcement returns the frame that announces addr at mac: a gratuitous ARP request (RFC 5227,
// section 2.3) or an unsolicited neighbour advertisement (RFC 4861, section 7.2.6).
func announcement(mac MAC, addr netip.Addr) []byte {
	if addr.Is4() {
		return arp(broadcast, arpRequest, mac, addr, MAC{}, addr)
	}
	return advertisement(allNodesMAC, allNodes, flagOverride, addr, mac)
}

// gratuitousReply is the other form of an announcement for IPv4, for hosts and middleboxes
// that do not learn from requests. Linux takes it as gratuitous only with the sender's MAC as
// the target's, too.
func gratuitousReply(mac MAC, addr netip.Addr) []byte {
	return arp(broadcast, arpReply, mac, addr, mac, addr)
}

// question returns the frame that asks for addr. Its sender is self, or unspecified: a probe (RFC 5227, section 2.1.1)
// or DAD (RFC 4862, section 5.4.2). A known MAC is asked alone, otherwise all hosts are.
func question(mac MAC, self, addr netip.Addr, known MAC) []byte {
	to := known
	if addr.Is4() {
		if known == (MAC{}) {
			to = broadcast
		}
		return arp(to, arpRequest, mac, self, MAC{}, addr)
	}
	dst := addr
	if known == (MAC{}) {
		dst = solicitedNode(addr)
		to = multicastMAC(dst)
	}
	return solicitation(to, mac, self, dst, addr)
}

func compareMACs(a, b MAC) int { return bytes.Compare(a[:], b[:]) }
