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

// reached is the step that a probe got to.
type reached int

const (
	nowhere   reached = iota
	connected         // the TCP connection is established
	opened            // the router sent its OPEN
	answered          // the router accepted ours
)

// outcome is the result of a probe.
type outcome struct {
	reached
	asn          uint32 // of the router, as its OPEN says; 0: no OPEN
	refused      string // why this machine refuses that OPEN; empty: it does not
	notification *notification
	err          error
}

// acceptTime is the time that a router may take to set TTL security up after it accepted a connection. It
// would accept an OPEN that arrives before.
const acceptTime = 300 * time.Millisecond

// probe goes through the first steps of a session and closes the connection before it is established: no
// KEEPALIVE of ours completes it, so the router keeps the routes that it has.
func probe(ctx context.Context, terms terms, with socket, within time.Duration) (got outcome) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := with.dial(ctx, terms)
	if err != nil {
		return outcome{err: err}
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	got.reached = connected
	if got.err = conn.SetDeadline(deadline); got.err != nil {
		return got
	}
	time.Sleep(acceptTime)
	_, got.err = conn.Write(open(terms))
	for got.reached < answered && got.notification == nil && got.err == nil {
		got.next(conn, terms)
	}
	return got
}

// isOf reports whether the router's OPEN, if there was one, has an AS number.
func (o outcome) isOf(asn inventory.ASN) bool { return o.asn == 0 || o.asn == uint32(asn) }

// next reads one message of the router's.
func (o *outcome) next(conn io.Reader, terms terms) {
	kind, body, err := message(conn)
	switch {
	case err != nil:
		o.err = err
	case kind == gobgp.BGP_MSG_OPEN:
		o.reached, o.asn, o.refused = opened, asnOf(body), refusedInOpen(body, terms)
	case kind == gobgp.BGP_MSG_KEEPALIVE:
		o.reached = answered
	case kind == gobgp.BGP_MSG_NOTIFICATION && len(body) >= 2:
		o.notification = &notification{code: body[0], subcode: body[1], data: string(body[2:])}
	default:
		o.err = fmt.Errorf("a message of type %d instead of an OPEN", kind)
	}
}

// message reads one BGP message (RFC 4271, section 4.1).
func message(from io.Reader) (kind uint8, body []byte, err error) {
	var header [gobgp.BGP_HEADER_LENGTH]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint16(header[16:]))
	if length < len(header) || length > gobgp.BGP_MAX_MESSAGE_LENGTH {
		return 0, nil, fmt.Errorf("a message of %d bytes", length)
	}
	body = make([]byte, length-len(header))
	_, err = io.ReadFull(from, body)
	return header[18], body, err
}

// asnOf reads the router's AS number in its OPEN: two octets of the fixed part, or four
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

// open returns the OPEN of a probe: the one that GoBGP sends, so that a router refuses both or neither.
func open(t terms) []byte {
	m, err := gobgp.NewBGPOpenMessage(twoOctets(t.Session.LocalASN), uint16(seconds(t.Session.HoldTime)), t.RouterID,
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

// socket holds the options of a TCP connection.
type socket struct {
	ttl      int // 0: the system's
	minTTL   int // RFC 5082; 0: any
	password Password
}

// socketOf returns the options of GoBGP's own connections.
func socketOf(t terms) socket {
	opts := socket{minTTL: int(minTTL(t.Session)), password: t.Password}
	switch s := t.Session; {
	case s.TTLSecurity:
		opts.ttl = 255
	case !s.IBGP():
		opts.ttl = max(int(s.Multihop), 1)
	}
	return opts
}

// dial connects to the router with the options.
func (o socket) dial(ctx context.Context, terms terms) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) { set = o.apply(int(fd), terms.Session.RouterAddr) }); err != nil {
			return err
		}
		return set
	}}
	if terms.Session.Local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(terms.Session.Local, 0))
	}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(terms.Session.RouterAddr.String(), strconv.Itoa(int(terms.Session.Port))))
}

// ipv6MinHopCount is IPV6_MINHOPCOUNT of Linux.
const ipv6MinHopCount = 73

// apply sets the options on a socket.
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

// signature returns the key of RFC 2385 for one router.
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
	unusedPort = 33434 // of traceroute: a host answers it with ICMP "port unreachable"
	aliveTime  = time.Second
)

// answersUDP reports whether a host answers at the router's address, by the one ICMP error
// that the kernel reports to an ordinary socket.
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

// timeout reports whether an error is that of a deadline, or of TCP's own.
func timeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}

// closed reports whether an error is that of a connection which the router closed.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
