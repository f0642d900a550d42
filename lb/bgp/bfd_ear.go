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

// ears are the sockets that BFD packets come in at: one for each address of this
// machine, however many routers send to it.
type ears struct {
	mu  sync.Mutex
	all map[netip.AddrPort]*ear
}

// ear is one of them.
type ear struct {
	all   *ears
	at    netip.AddrPort
	conn  *net.UDPConn
	links map[netip.Addr]*link // by router; guarded by all.mu
}

// join has the packets of a link's router that come to a port handed to it.
func (e *ears) join(l *link, port uint16) (*ear, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := netip.AddrPortFrom(l.terms.local, port)
	if x := e.all[at]; x != nil {
		x.links[l.terms.router] = l
		return x, nil
	}
	conn, err := listenBFD(at)
	if err != nil {
		return nil, err
	}
	x := &ear{all: e, at: at, conn: conn, links: map[netip.Addr]*link{l.terms.router: l}}
	e.all[at] = x
	go x.listen()
	return x, nil
}

// leave ends that, and closes the socket after the last link.
func (x *ear) leave(l *link) {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	if x.links[l.terms.router] == l {
		delete(x.links, l.terms.router)
	}
	if len(x.links) == 0 && x.all.all[x.at] == x {
		delete(x.all.all, x.at)
		x.conn.Close()
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

// listen hands packets to their links until the socket is closed.
func (x *ear) listen() {
	buf, oob := make([]byte, 256), make([]byte, 128)
	for {
		n, m, _, from, err := x.conn.ReadMsgUDPAddrPort(buf, oob)
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
		x.all.mu.Lock()
		l := x.links[from.Addr().Unmap()]
		x.all.mu.Unlock()
		// RFC 5881, section 5: nobody from further away can have sent a TTL of 255.
		if l != nil && (l.terms.far || hops(oob[:m]) == 255) {
			l.deliver(packet{h, x.at.Port()})
		}
	}
}

// packet is what came in, and the port that it came to.
type packet struct {
	bfd.BFDHeader
	port uint16
}

// deliver drops what a link has no time for.
func (l *link) deliver(p packet) {
	select {
	case l.in <- p:
	default:
	}
}

// parseBFD reads a control packet (RFC 5880, section 4.1), and refuses those that
// are authenticated or for many.
func parseBFD(b []byte) (bfd.BFDHeader, bool) {
	var h bfd.BFDHeader
	const authenticated, multipoint = 0x04, 0x01
	if len(b) < 24 || b[1]&(authenticated|multipoint) != 0 || h.UnmarshalBinary(b) != nil {
		return h, false
	}
	return h, true
}

// hops is the TTL or hop limit that a packet arrived with; 0: not told.
func hops(oob []byte) int {
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
