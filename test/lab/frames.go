package lab

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// MAC is a hardware address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// FrameKind is what a frame is for.
type FrameKind string

// The kinds of frames that are told apart.
const (
	ARPRequest   FrameKind = "ARP request"
	ARPProbe     FrameKind = "ARP probe"        // RFC 5227: from nobody's address
	ARPReply     FrameKind = "ARP reply"        // to one host
	ARPAnnounced FrameKind = "ARP announcement" // gratuitous: the sender is the target, or a reply to all
	Solicitation FrameKind = "neighbour solicitation"
	DADProbe     FrameKind = "DAD solicitation" // RFC 4862: from the unspecified address
	Advertised   FrameKind = "neighbour advertisement"
	NAAnnounced  FrameKind = "unsolicited neighbour advertisement"
	BFDControl   FrameKind = "BFD"
	Memberlist   FrameKind = "memberlist" // hashicorp/memberlist, by its usual port
	OtherFrame   FrameKind = "other"
)

// Answers reports whether the frame tells a host that an address is at a MAC.
func (k FrameKind) Answers() bool {
	return k == ARPReply || k == ARPAnnounced || k == Advertised || k == NAAnnounced
}

// Frame is one that a host has sent.
type Frame struct {
	At      time.Time
	Host    string // that sent it, by the port it came in at
	Kind    FrameKind
	Source  MAC
	Address netip.Addr // that is asked for, or told of; of ARP and neighbour discovery alone
	Asker   netip.Addr // that asks, or that is answered; of the same
	Where   MAC        // where Address is said to be; of answers alone
}

const (
	etherARP, etherIPv4, etherIPv6 = 0x0806, 0x0800, 0x86dd

	protocolUDP, protocolICMPv6 = 17, 58

	neighborSolicit, neighborAdvert = 135, 136 // RFC 4861, section 4

	targetLinkLayer = 2 // RFC 4861, section 4.6.1
)

// parse reads an Ethernet frame, all but At and Host of it.
func parse(b []byte) Frame {
	f := Frame{Kind: OtherFrame}
	if len(b) < 14 {
		return f
	}
	f.Source = MAC(b[6:12])
	to, payload := MAC(b[:6]), b[14:]
	switch binary.BigEndian.Uint16(b[12:]) {
	case etherARP:
		f.arp(payload, to)
	case etherIPv4:
		if len(payload) >= 20 && payload[9] == protocolUDP {
			f.udp(payload[min(len(payload), int(payload[0]&0xf)*4):])
		}
	case etherIPv6:
		f.ipv6(payload)
	}
	return f
}

// arp reads a packet of RFC 826.
func (f *Frame) arp(b []byte, to MAC) {
	if len(b) < 28 {
		return
	}
	sender, target := netip.AddrFrom4([4]byte(b[14:18])), netip.AddrFrom4([4]byte(b[24:28]))
	broadcast := to == MAC{255, 255, 255, 255, 255, 255}
	switch op := binary.BigEndian.Uint16(b[6:]); {
	case sender == target || op == 2 && broadcast:
		f.Kind, f.Address, f.Where = ARPAnnounced, sender, MAC(b[8:14])
	case op == 2:
		f.Kind, f.Address, f.Asker, f.Where = ARPReply, sender, target, MAC(b[8:14])
	case sender.IsUnspecified():
		f.Kind, f.Address, f.Asker = ARPProbe, target, sender
	case op == 1:
		f.Kind, f.Address, f.Asker = ARPRequest, target, sender
	}
}

func (f *Frame) ipv6(b []byte) {
	if len(b) < 40 {
		return
	}
	from, to, payload := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[40:]
	switch {
	case b[6] == protocolUDP:
		f.udp(payload)
	case b[6] == protocolICMPv6 && len(payload) >= 24 && payload[0] == neighborSolicit:
		f.Kind, f.Address, f.Asker = Solicitation, netip.AddrFrom16([16]byte(payload[8:24])), from
		if from.IsUnspecified() {
			f.Kind = DADProbe
		}
	case b[6] == protocolICMPv6 && len(payload) >= 24 && payload[0] == neighborAdvert:
		f.Kind, f.Address, f.Asker, f.Where = Advertised, netip.AddrFrom16([16]byte(payload[8:24])), to, f.Source
		if to.IsMulticast() {
			f.Kind = NAAnnounced
		}
		if o := payload[24:]; len(o) >= 8 && o[0] == targetLinkLayer {
			f.Where = MAC(o[2:8])
		}
	}
}

// udp tells by the destination port.
func (f *Frame) udp(b []byte) {
	if len(b) < 4 {
		return
	}
	switch binary.BigEndian.Uint16(b[2:]) {
	case 3784, 4784:
		f.Kind = BFDControl
	case 7946:
		f.Kind = Memberlist
	}
}
