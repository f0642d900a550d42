package bfd

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/uptime"
)

// Listeners are the sockets that packets arrive at: one for each address and port of this
// machine, however many peers send to it. The sessions of a process share one Listeners. It
// can be used by several goroutines.
type Listeners struct {
	mu     sync.Mutex
	byAddr map[netip.AddrPort]*listener
}

// NewListeners returns Listeners without a socket.
func NewListeners() *Listeners { return &Listeners{byAddr: map[netip.AddrPort]*listener{}} }

// listener is one of the sockets.
type listener struct {
	group    *Listeners
	at       netip.AddrPort
	conn     *net.UDPConn
	sessions map[netip.Addr]*Session // by peer; guarded by group.mu
}

// register delivers to a session what its peer sends to a port. The first session of an address and
// port opens the socket.
func (ls *Listeners) register(session *Session, port uint16) (*listener, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	at := netip.AddrPortFrom(session.terms.Local, port)
	if l := ls.byAddr[at]; l != nil {
		l.sessions[session.terms.Remote] = session
		return l, nil
	}
	conn, err := listen(at)
	if err != nil {
		return nil, err
	}
	l := &listener{group: ls, at: at, conn: conn, sessions: map[netip.Addr]*Session{session.terms.Remote: session}}
	ls.byAddr[at] = l
	go l.receive()
	return l, nil
}

// unregister ends that, and closes the socket after the last session.
func (l *listener) unregister(s *Session) {
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	if l.sessions[s.terms.Remote] == s {
		delete(l.sessions, s.terms.Remote)
	}
	if len(l.sessions) == 0 && l.group.byAddr[l.at] == l {
		delete(l.group.byAddr, l.at)
		l.conn.Close()
	}
}

func listen(at netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) {
			if at.Addr().Is4() {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
			} else {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
			}
			set = errors.Join(set, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
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
func (l *listener) receive() {
	// The length of a control packet is one byte: padding that does not fit is not read.
	buf, oob := make([]byte, 256), make([]byte, 128)
	for {
		size, oobSize, _, from, err := l.conn.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		packet, ok := parse(buf[:size])
		if !ok {
			continue
		}
		l.group.mu.Lock()
		s := l.sessions[from.Addr().Unmap()]
		l.group.mu.Unlock()
		if s != nil && receivedTTL(oob[:oobSize]) >= s.terms.minTTL() {
			s.deliver(arrival{packet, l.at.Port(), uptime.Now() - age(oob[:oobSize], time.Now())})
		}
	}
}

// arrival is a packet, and the port that it was sent to.
type arrival struct {
	packet
	port uint16
	at   time.Duration // on the clock of package uptime
}

// deliver drops packets that the session cannot keep up with.
func (s *Session) deliver(a arrival) {
	select {
	case s.received <- a:
	default:
	}
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

// age returns the time that a packet waited to be read. Where the wall clock was set back meanwhile
// that is not known, and the packet counts as older than anything that is waited for.
func age(oob []byte, now time.Time) time.Duration {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_TIMESTAMPNS || len(m.Data) < 16 {
			continue
		}
		sec, nsec := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
		if waited := now.Sub(time.Unix(int64(sec), int64(nsec))); waited >= 0 {
			return waited
		}
		return time.Hour
	}
	return 0
}
