package bfd

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	firstSourcePort = 49152
	sourcePorts     = 1 << 14
	dscpCS6         = 0xc0 // as the TOS byte
)

// dial opens the socket to send from, at a port that RFC 5881, section 4, allows.
func dial(terms Terms, port uint16) (io.WriteCloser, error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) { set = sendOptions(int(fd), terms.Remote) }); err != nil {
			return err
		}
		return set
	}}
	to := netip.AddrPortFrom(terms.Remote, port).String()
	var last error
	for range 20 {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(terms.Local, uint16(firstSourcePort+rand.IntN(sourcePorts))))
		conn, err := dialer.Dial("udp", to)
		if err == nil {
			return conn, nil
		}
		last = err
	}
	if op := (*net.OpError)(nil); errors.As(last, &op) {
		last = op.Err // without the port, which is another one each time
	}
	return nil, fmt.Errorf("from %v to %s: %w", terms.Local, to, last)
}

func sendOptions(fd int, peer netip.Addr) error {
	level, tos, ttl := unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	if !peer.Is4() {
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_UNICAST_HOPS
	}
	if err := unix.SetsockoptInt(fd, level, tos, dscpCS6); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, level, ttl, maxTTL)
}
