package bgp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
)

// reached is how far a probe got.
type reached int

const (
	nowhere   reached = iota
	connected         // TCP stands
	opened            // the router sent its OPEN
	answered          // the router took ours
)

// outcome is what became of a probe.
type outcome struct {
	reached
	asn          uint32 // of the router, as its OPEN says; 0: no OPEN
	refused      string // why this machine does not take that OPEN; empty: it does
	notification *notification
	err          error
}

const settle = 300 * time.Millisecond

// probe goes through the first steps of a session and hangs up before it is one: no
// KEEPALIVE of ours completes it, so the router learns nothing and keeps what it has.
func probe(ctx context.Context, t terms, o socket, within time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := o.dial(ctx, t)
	if err != nil {
		return outcome{err: err}
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	r := outcome{reached: connected}
	if r.err = conn.SetDeadline(deadline); r.err != nil {
		return r
	}
	// A router sets TTL security up after it accepted a connection, and would take an
	// OPEN that is there before.
	time.Sleep(settle)
	if _, r.err = conn.Write(open(t)); r.err != nil {
		return r
	}
	for r.reached < answered && r.notification == nil && r.err == nil {
		r.next(conn, t)
	}
	return r
}

// isOf reports whether the router's OPEN says nothing else than that it is in an AS.
func (r outcome) isOf(asn inventory.ASN) bool { return r.asn == 0 || r.asn == uint32(asn) }

// next takes in one message of the router's.
func (r *outcome) next(conn io.Reader, t terms) {
	kind, body, err := message(conn)
	switch {
	case err != nil:
		r.err = err
	case kind == gobgp.BGP_MSG_OPEN:
		r.reached, r.asn, r.refused = opened, asnOf(body), refusedInOpen(body, t)
	case kind == gobgp.BGP_MSG_KEEPALIVE:
		r.reached = answered
	case kind == gobgp.BGP_MSG_NOTIFICATION && len(body) >= 2:
		r.notification = &notification{code: body[0], subcode: body[1], data: string(body[2:])}
	default:
		r.err = fmt.Errorf("a message of type %d instead of an OPEN", kind)
	}
}

// message reads one BGP message (RFC 4271, section 4.1).
func message(r io.Reader) (kind uint8, body []byte, err error) {
	var header [gobgp.BGP_HEADER_LENGTH]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(header[16:]))
	if n < len(header) || n > gobgp.BGP_MAX_MESSAGE_LENGTH {
		return 0, nil, fmt.Errorf("a message of %d bytes", n)
	}
	body = make([]byte, n-len(header))
	_, err = io.ReadFull(r, body)
	return header[18], body, err
}

// asnOf reads the router's ASN out of its OPEN: two octets of the fixed part, or four
// of a capability (RFC 6793, section 3). 0: it is not an OPEN.
func asnOf(body []byte) uint32 {
	open := &gobgp.BGPOpen{}
	if err := open.DecodeFromBytes(body); err != nil {
		return 0
	}
	asn := uint32(open.MyAS)
	for _, p := range open.OptParams {
		caps, ok := p.(*gobgp.OptionParameterCapability)
		if !ok {
			continue
		}
		for _, c := range caps.Capability {
			if four, ok := c.(*gobgp.CapFourOctetASNumber); ok {
				asn = four.CapValue
			}
		}
	}
	return asn
}

// open is the OPEN of a probe: the one that GoBGP sends, so that a router refuses both or neither.
func open(t terms) []byte {
	s := t.Session
	asn := uint16(asTrans)
	if s.LocalASN <= 0xffff {
		asn = uint16(s.LocalASN)
	}
	m, err := gobgp.NewBGPOpenMessage(asn, uint16(seconds(s.HoldTime)), t.RouterID,
		[]gobgp.OptionParameterInterface{gobgp.NewOptionParameterCapability(offered(t))})
	if err != nil {
		return nil
	}
	b, err := m.Serialize()
	if err != nil {
		return nil
	}
	return b
}

// socket is what a TCP connection is set up with.
type socket struct {
	ttl      int // 0: the system's
	minTTL   int // RFC 5082; 0: any
	password Password
}

// socketOf is how GoBGP sets its own connections up.
func socketOf(t terms) socket {
	s := t.Session
	o := socket{minTTL: int(minTTL(s)), password: t.Password}
	switch {
	case s.TTLSecurity:
		o.ttl = 255
	case s.IBGP():
	case s.Multihop > 0:
		o.ttl = int(s.Multihop)
	default:
		o.ttl = 1
	}
	return o
}

func (o socket) dial(ctx context.Context, t terms) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) { set = o.apply(int(fd), t.Session.RouterAddr) }); err != nil {
			return err
		}
		return set
	}}
	if t.Session.Local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(t.Session.Local, 0))
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(t.Session.RouterAddr.String(), strconv.Itoa(int(t.Session.Port))))
}

const ipv6MinHopCount = 73 // IPV6_MINHOPCOUNT of Linux

func (o socket) apply(fd int, router netip.Addr) error {
	level, ttl, minimum := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	if router.Is6() {
		level, ttl, minimum = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ipv6MinHopCount
	}
	var errs []error
	if o.ttl > 0 {
		errs = append(errs, unix.SetsockoptInt(fd, level, ttl, o.ttl))
	}
	if o.minTTL > 0 {
		errs = append(errs, unix.SetsockoptInt(fd, level, minimum, o.minTTL))
	}
	if o.password != "" {
		errs = append(errs, unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, o.signature(router)))
	}
	return errors.Join(errs...)
}

// signature is the key of RFC 2385 for one router.
func (o socket) signature(router netip.Addr) *unix.TCPMD5Sig {
	sig := &unix.TCPMD5Sig{Keylen: uint16(len(o.password))}
	copy(sig.Key[:], o.password.reveal())
	if router.Is4() {
		a := router.As4()
		sig.Addr.Family = unix.AF_INET
		copy(sig.Addr.Data[2:], a[:])
		return sig
	}
	a := router.As16()
	sig.Addr.Family = unix.AF_INET6
	copy(sig.Addr.Data[6:], a[:])
	return sig
}

const (
	unusedPort = 33434 // where traceroute knocks, and nobody answers but with "unreachable"
	aliveTime  = time.Second
)

// answersUDP asks whether anything answers at the router's address, by the one ICMP error
// that the kernel hands to an ordinary socket.
func answersUDP(ctx context.Context, t terms) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", net.JoinHostPort(t.Session.RouterAddr.String(), strconv.Itoa(unusedPort)))
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetDeadline(deadline) != nil {
		return false
	}
	if _, err = conn.Write([]byte{0}); err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func timeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
