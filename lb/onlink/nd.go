package onlink

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipv6Header    = 40
	icmpv6        = 58
	ndHopLimit    = 255 // no router has passed it on (RFC 4861, section 7.1)
	ndLength      = 24  // without options
	typeNS        = 135
	typeNA        = 136
	flagSolicited = 0x40
	flagOverride  = 0x20
	sourceMAC     = 1 // option: source link-layer address
	targetMAC     = 2 // option: target link-layer address
)

var (
	allNodes    = netip.MustParseAddr("ff02::1")
	allNodesMAC = multicastMAC(allNodes)
)

// solicitedNode is the group that a neighbour solicitation for addr is sent to (RFC 4291,
// section 2.7.1).
func solicitedNode(addr netip.Addr) netip.Addr {
	a := addr.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]})
}

// multicastMAC returns the MAC that frames for a group are sent to (RFC 2464, section 7).
func multicastMAC(group netip.Addr) MAC {
	a := group.As16()
	return MAC{0x33, 0x33, a[12], a[13], a[14], a[15]}
}

// parseND reads a neighbour solicitation or advertisement that begins with its IPv6 header,
// and validates it as RFC 4861 has it in sections 7.1.1 and 7.1.2. Extension headers are not
// looked behind: neighbour discovery has none.
func parseND(source MAC, data []byte) (packet, bool) {
	if len(data) < ipv6Header+ndLength || data[0]>>4 != 6 || data[6] != icmpv6 || data[7] != ndHopLimit {
		return packet{}, false
	}
	src, dst := netip.AddrFrom16([16]byte(data[8:24])), netip.AddrFrom16([16]byte(data[24:40]))
	length := int(binary.BigEndian.Uint16(data[4:6]))
	if length < ndLength || len(data) < ipv6Header+length || src.IsMulticast() {
		return packet{}, false
	}
	message := data[ipv6Header : ipv6Header+length]
	target := netip.AddrFrom16([16]byte(message[8:24]))
	if message[1] != 0 || target.IsMulticast() || target.IsUnspecified() || checksum(src, dst, message) != 0 {
		return packet{}, false
	}
	switch message[0] {
	case typeNS:
		return parseNS(source, src, dst, target, message[ndLength:])
	case typeNA:
		return parseNA(source, src, dst, target, message)
	}
	return packet{}, false
}

// parseNS: without its option (neighbour unreachability detection may leave it out) the
// answer goes where the frame came from.
func parseNS(source MAC, src, dst, target netip.Addr, options []byte) (packet, bool) {
	mac, found, ok := option(options, sourceMAC)
	dad := src.IsUnspecified()
	if !ok || dad && (found || dst != solicitedNode(target)) {
		return packet{}, false
	}
	if !found {
		mac = source
	}
	parsed := packet{mac: mac, sender: src}
	if !dad {
		parsed.asserts = src
	}
	if src != target {
		parsed.asks = target
	}
	return parsed, mac.isUnicast()
}

func parseNA(source MAC, src, dst, target netip.Addr, m []byte) (packet, bool) {
	mac, found, ok := option(m[ndLength:], targetMAC)
	if !ok || src.IsUnspecified() || dst.IsMulticast() && m[4]&flagSolicited != 0 {
		return packet{}, false
	}
	if !found {
		mac = source
	}
	return packet{mac: mac, sender: src, asserts: target, answers: true}, mac.isUnicast()
}

// option finds a link-layer address among the options. It reports false for ok where one of
// the options has no length or does not fit.
func option(data []byte, kind byte) (mac MAC, found, ok bool) {
	for len(data) > 0 {
		if len(data) < 2 || data[1] == 0 || len(data) < 8*int(data[1]) {
			return MAC{}, false, false
		}
		if data[0] == kind && data[1] == 1 && !found {
			copy(mac[:], data[2:8])
			found = true
		}
		data = data[8*int(data[1]):]
	}
	return mac, found, true
}

// advertisement is a frame with a neighbour advertisement. The Router flag is not set: hosts
// take no default route from who has a VIP.
func advertisement(to MAC, dst netip.Addr, flags byte, target netip.Addr, mac MAC) []byte {
	m := append([]byte{typeNA, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice()...)
	m = append(append(m, targetMAC, 1), mac[:]...)
	return nd(to, mac, target, dst, m)
}

// solicitation is a frame with a neighbour solicitation, which for DAD has no option.
func solicitation(to, mac MAC, src, dst, target netip.Addr) []byte {
	m := append([]byte{typeNS, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	if !src.IsUnspecified() {
		m = append(append(m, sourceMAC, 1), mac[:]...)
	}
	return nd(to, mac, src, dst, m)
}

// nd is a frame with an ICMPv6 message, whose checksum it fills in.
func nd(to, from MAC, src, dst netip.Addr, message []byte) []byte {
	binary.BigEndian.PutUint16(message[2:], checksum(src, dst, message))
	frame := append(ethernet(to, from, etherTypeIPv6), 0x60, 0, 0, 0)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(message)))
	frame = append(append(frame, icmpv6, ndHopLimit), src.AsSlice()...)
	return append(append(frame, dst.AsSlice()...), message...)
}

// checksum is the one of ICMPv6 (RFC 4443, section 2.3); over a message that has it, 0.
func checksum(src, dst netip.Addr, message []byte) uint16 {
	sum := uint32(len(message)) + icmpv6
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(b[0])<<8 | uint32(b[1])
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	add(src.AsSlice())
	add(dst.AsSlice())
	add(message)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
