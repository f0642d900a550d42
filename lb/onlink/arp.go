package onlink

import (
	"encoding/binary"
	"net/netip"
)

const (
	arpRequest = 1
	arpReply   = 2
	arpLength  = 28
	// arpEthernetIPv4 is the beginning of an ARP packet for IPv4 over Ethernet: both types and both lengths.
	arpEthernetIPv4 = 0x0001_0800_0604
)

// parseARP reads an ARP packet. Its sender's MAC is what caches learn, whatever the Ethernet
// header has.
func parseARP(data []byte) (packet, bool) {
	if len(data) < arpLength || binary.BigEndian.Uint64(data)>>16 != arpEthernetIPv4 {
		return packet{}, false
	}
	var parsed packet
	copy(parsed.mac[:], data[8:14])
	parsed.sender = netip.AddrFrom4([4]byte(data[14:18]))
	target := netip.AddrFrom4([4]byte(data[24:28]))
	if !parsed.mac.isUnicast() {
		return packet{}, false
	}
	if !parsed.sender.IsUnspecified() {
		parsed.asserts = parsed.sender
	}
	switch binary.BigEndian.Uint16(data[6:8]) {
	case arpRequest:
		if target != parsed.sender { // an announcement asks for nothing
			parsed.asks = target
		}
	case arpReply:
		parsed.answers = true
	default:
		return packet{}, false
	}
	return parsed, true
}

// arp is a frame with an ARP packet.
func arp(to MAC, op uint16, mac MAC, sender netip.Addr, targetMAC MAC, target netip.Addr) []byte {
	frame := ethernet(to, mac, etherTypeARP)
	frame = append(frame, 0, 1, 8, 0, 6, 4)
	frame = binary.BigEndian.AppendUint16(frame, op)
	frame = append(append(frame, mac[:]...), sender.AsSlice()...)
	return append(append(frame, targetMAC[:]...), target.AsSlice()...)
}
