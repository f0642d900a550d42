package lab

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// questioner is a host's socket for frames.
type questioner struct {
	fd, device int
	mac        MAC
	self       Dual
}

func (q *questioner) open(namespace string) error {
	err := netns.Do(namespace, func() error {
		dev, err := net.InterfaceByName(RackInterface)
		if err == nil {
			q.device, q.mac = dev.Index, MAC(dev.HardwareAddr)
		}
		return err
	})
	if err != nil {
		return err
	}
	q.fd, err = packetSocket(namespace, RackInterface)
	return err
}

// ask asks all who has an address.
func (q questioner) ask(addr netip.Addr) error {
	if addr.Is6() {
		return q.send(q.solicitation(addr))
	}
	return q.send(q.arp(q.self.V4, addr))
}

// announce tells all that the host has an address (RFC 5227, section 2.3; RFC 4861, section 7.2.6).
func (q questioner) announce(addr netip.Addr) error {
	if addr.Is6() {
		return q.send(q.advertisement(addr))
	}
	return q.send(q.arp(addr, addr))
}

func (q questioner) send(frame []byte) error {
	return unix.Sendto(q.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: q.device, Halen: 6, Addr: [8]byte(append(frame[:6:6], 0, 0))})
}

// arp is a request of RFC 826 to all.
func (q questioner) arp(sender, target netip.Addr) []byte {
	b := append([]byte{255, 255, 255, 255, 255, 255}, q.mac[:]...)
	b = append(b, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1)
	b = append(b, q.mac[:]...)
	b = append(b, sender.AsSlice()...)
	b = append(b, make([]byte, 6)...)
	return append(b, target.AsSlice()...)
}

// solicitation is one of RFC 4861, section 4.3, to the solicited-node group.
func (q questioner) solicitation(addr netip.Addr) []byte {
	group, to := netip.MustParseAddr("ff02::1:ff00:0").As16(), addr.As16()
	copy(group[13:], to[13:])
	const sourceLinkLayer = 1
	return q.icmp(q.self.V6, netip.AddrFrom16(group), []byte{neighborSolicit, 0, 0, 0, 0, 0, 0, 0}, addr, sourceLinkLayer)
}

// advertisement is an unsolicited one of RFC 4861, section 4.4, with the override flag, to all nodes.
func (q questioner) advertisement(addr netip.Addr) []byte {
	const override = 0x20
	return q.icmp(addr, netip.MustParseAddr("ff02::1"), []byte{neighborAdvert, 0, 0, 0, override, 0, 0, 0}, addr, targetLinkLayer)
}

// icmp is a frame of neighbour discovery to a group, with the host's MAC in its one option.
func (q questioner) icmp(from, to netip.Addr, head []byte, target netip.Addr, option byte) []byte {
	group := to.AsSlice()
	body := slices.Concat(head, target.AsSlice(), []byte{option, 1}, q.mac[:])
	length := []byte{0, byte(len(body))}
	pseudo := slices.Concat(from.AsSlice(), group, []byte{0, 0}, length, []byte{0, 0, 0, protocolICMPv6}, body)
	binary.BigEndian.PutUint16(body[2:], checksum(pseudo))
	ethernet := slices.Concat([]byte{0x33, 0x33}, group[12:], q.mac[:], []byte{0x86, 0xdd})
	header := slices.Concat([]byte{0x60, 0, 0, 0}, length, []byte{protocolICMPv6, 255}, from.AsSlice(), group)
	return slices.Concat(ethernet, header, body)
}

// TakeAddress has a host take an address of its subnet, as somebody does who types it into a phone:
// its kernel answers for it, and it says so once.
func (l *Lab) TakeAddress(host string, addr netip.Addr) error {
	if err := netns.IP(l.Namespace(host), fmt.Sprintf("addr add %s/%d dev %s%s", addr, addr.BitLen(), RackInterface, noDAD(addr))); err != nil {
		return err
	}
	q := questioner{self: l.Topology.HostAddress(host)}
	if err := q.open(l.Namespace(host)); err != nil {
		return err
	}
	return errors.Join(q.announce(addr), unix.Close(q.fd))
}

// GiveBackAddress undoes TakeAddress.
func (l *Lab) GiveBackAddress(host string, addr netip.Addr) error {
	return netns.IP(l.Namespace(host), fmt.Sprintf("addr del %s/%d dev %s", addr, addr.BitLen(), RackInterface))
}

func noDAD(addr netip.Addr) string {
	if addr.Is6() {
		return " nodad"
	}
	return ""
}

// NeighbourOf is at which host of a rack a host's kernel takes an address to be; empty: it knows of none.
func (l *Lab) NeighbourOf(ctx context.Context, host string, addr netip.Addr) (string, error) {
	out, err := netns.Output(ctx, l.Namespace(host), "ip", "-j", "neigh", "show", "to", addr.String())
	if err != nil {
		return "", err
	}
	var known []struct{ LLAddr string }
	if err := json.Unmarshal([]byte(out), &known); err != nil {
		return "", fmt.Errorf("neighbours of %s: %w", host, err)
	}
	macs, err := l.MACs()
	if err != nil {
		return "", err
	}
	for _, n := range known {
		if hw, err := net.ParseMAC(n.LLAddr); err == nil && len(hw) == 6 {
			return macs[MAC(hw)], nil
		}
	}
	return "", nil
}

// ForgetNeighbours empties a host's neighbour caches, as a reboot would.
func (l *Lab) ForgetNeighbours(ctx context.Context, host string) error {
	_, err := netns.Output(ctx, l.Namespace(host), "ip", "neigh", "flush", "all")
	return err
}
