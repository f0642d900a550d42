package bgp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/osrg/gobgp/v4/pkg/packet/bfd"
	"golang.org/x/sys/unix"
)

// bfdListeners are the sockets that BFD packets arrive at: one for each address and
// port of this machine, however many routers send to it.
type bfdListeners struct {
	mu     sync.Mutex
	byAddr map[netip.AddrPort]*bfdListener
}

// bfdListener is one of them.
type bfdListener struct {
	group    *bfdListeners
	at       netip.AddrPort
	conn     *net.UDPConn
	sessions map[netip.Addr]*bfdSession // by router; guarded by group.mu
}

// register delivers to s what its router sends to a port. The first session of an
// address and port opens the socket.
func (ls *bfdListeners) register(s *bfdSession, port uint16) (*bfdListener, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	at := netip.AddrPortFrom(s.terms.local, port)
	if l := ls.byAddr[at]; l != nil {
		l.sessions[s.terms.router] = s
		return l, nil
	}
	conn, err := listenBFD(at)
	if err != nil {
		return nil, err
	}
	l := &bfdListener{group: ls, at: at, conn: conn, sessions: map[netip.Addr]*bfdSession{s.terms.router: s}}
	ls.byAddr[at] = l
	go l.receive()
	return l, nil
}

// unregister ends that, and closes the socket after the last session.
func (l *bfdListener) unregister(s *bfdSession) {
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	if l.sessions[s.terms.router] == s {
		delete(l.sessions, s.terms.router)
	}
	if len(l.sessions) == 0 && l.group.byAddr[l.at] == l {
		delete(l.group.byAddr, l.at)
		l.conn.Close()
	}
}

func listenBFD(at netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) {
			if at.Addr().Is4() {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
			} else {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
			}
		}); err != nil {
			return err
		}
		return set
	}}
	conn, err := lc.ListenPacket(context.Background(), "udp", at.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// receive delivers packets to their sessions until the socket is closed.
func (l *bfdListener) receive() {
	// The length of a control packet is one byte: padding that does not fit is not read.
	buf, oob := make([]byte, 256), make([]byte, 128)
	for {
		n, m, _, from, err := l.conn.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		h, ok := parseBFD(buf[:n])
		if !ok {
			continue
		}
		l.group.mu.Lock()
		s := l.sessions[from.Addr().Unmap()]
		l.group.mu.Unlock()
		if s != nil && receivedTTL(oob[:m]) >= s.terms.minTTL {
			s.deliver(bfdPacket{h, l.at.Port()})
		}
	}
}

// bfdPacket is a control packet, and the port that it was sent to.
type bfdPacket struct {
	bfd.BFDHeader
	port uint16
}

// deliver drops packets that the session cannot keep up with.
func (s *bfdSession) deliver(p bfdPacket) {
	select {
	case s.received <- p:
	default:
	}
}

// parseBFD reads a control packet (RFC 5880, section 4.1), and refuses those that
// are authenticated or multipoint. What follows its length is padding (RFC 9764).
func parseBFD(b []byte) (bfd.BFDHeader, bool) {
	var h bfd.BFDHeader
	const least, authenticated, multipoint = 24, 0x04, 0x01
	if len(b) < least || b[1]&(authenticated|multipoint) != 0 {
		return h, false
	}
	length := int(b[3])
	if length < least || length > len(b) || h.UnmarshalBinary(b[:length]) != nil {
		return h, false
	}
	return h, true
}

// receivedTTL is the TTL or hop limit that a packet arrived with; 0: unknown.
func receivedTTL(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		ttl := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL
		limit := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT
		if (ttl || limit) && len(m.Data) >= 4 {
			return int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return 0
}
