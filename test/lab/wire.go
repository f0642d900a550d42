package lab

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// Wire is a host's cable in its rack, onto which frames of any kind are sent.
type Wire struct{ q questioner }

// OpenWire opens the cable of a host that is no machine. What it sends bears the host's MAC.
func (l *Lab) OpenWire(host string) (*Wire, error) {
	w := &Wire{questioner{self: l.Topology.HostAddress(host)}}
	return w, netns.Do(l.Namespace(host), func() error {
		dev, err := net.InterfaceByName(RackInterface)
		if err != nil {
			return err
		}
		w.q.device, w.q.mac = dev.Index, MAC(dev.HardwareAddr)
		w.q.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // it receives nothing
		if err != nil {
			return err
		}
		return unix.SetsockoptInt(w.q.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	})
}

// As is the same cable with another MAC and other addresses in what Question and Announcement write.
func (w *Wire) As(mac MAC, self Dual) *Wire {
	other := *w
	other.q.mac, other.q.self = mac, self
	return &other
}

// Question asks all who has an address.
func (w *Wire) Question(addr netip.Addr) []byte {
	if addr.Is6() {
		return w.q.solicitation(addr)
	}
	return w.q.arp(w.q.self.V4, addr)
}

// Announcement tells all that the sender has an address: a gratuitous ARP, or an unsolicited
// neighbour advertisement.
func (w *Wire) Announcement(addr netip.Addr) []byte {
	if addr.Is6() {
		return w.q.advertisement(addr)
	}
	return w.q.arp(addr, addr)
}

// Send puts a frame on the wire as it is.
func (w *Wire) Send(frame []byte) error {
	to := unix.SockaddrLinklayer{Ifindex: w.q.device, Halen: 6}
	copy(to.Addr[:], frame[:min(6, len(frame))])
	return unix.Sendto(w.q.fd, frame, 0, &to)
}

// Close closes the wire, and all that are as it.
func (w *Wire) Close() error { return unix.Close(w.q.fd) }

// Addresses are all that a host's kernel has, on any interface.
func (l *Lab) Addresses(host string) (all []netip.Addr, err error) {
	err = netns.Do(l.Namespace(host), func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, p.Addr())
			}
		}
		return err
	})
	return all, err
}
