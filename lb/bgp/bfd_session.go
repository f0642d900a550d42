package bgp

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bfd"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
)

const (
	bfdPort         = 3784 // RFC 5881, section 4
	bfdMultihopPort = 4784 // RFC 5883, section 5: more than one hop
	firstSourcePort = 49152
	sourcePorts     = 1 << 14
	dscpCS6         = 0xc0 // as the TOS byte
)

// bfdTerms are the ends and timers of a BFD session; they compare with ==.
type bfdTerms struct {
	local, router netip.Addr
	multihop      bool // more than one hop
	minTTL        int  // of the router's packets
	profile       inventory.BFDProfile
}

func bfdOf(s inventory.Session) bfdTerms {
	t := bfdTerms{local: s.Local, router: s.RouterAddr, multihop: s.Multihop > 1, minTTL: maxTTL, profile: s.BFD}
	if t.multihop {
		t.minTTL = int(minTTL(s)) // of BIRD's packets it is 64 at first
	}
	return t
}

// maxTTL is what a packet has that no router has passed on (RFC 5881, section 5).
const maxTTL = 255

// port is the port that this machine sends to at first.
func (t bfdTerms) port() uint16 {
	if t.multihop {
		return bfdMultihopPort
	}
	return bfdPort
}

// ports are those that a router may send to. FRR treats every session with TTL security
// as a multihop one; whether it is directly connected shows in the TTL alone.
func (t bfdTerms) ports() []uint16 {
	if t.multihop {
		return []uint16{bfdMultihopPort}
	}
	return []uint16{bfdPort, bfdMultihopPort}
}

// bfdStartDelay is how long a new session receives before it sends. In that time a
// packet arrives from a router that still has the session of an earlier process up,
// and FRR, which sets its end up only once BGP is up, has done so.
const bfdStartDelay = time.Second

// bfdSession runs one BFD session.
type bfdSession struct {
	terms     bfdTerms
	log       *slog.Logger
	events    chan<- bfdEvent
	listeners []*bfdListener
	conn      *net.UDPConn
	port      uint16 // that conn sends to
	received  chan bfdPacket
	startOnce sync.Once
	start     chan struct{} // closed: send
	quit      chan struct{} // closed: end
	holdFor   time.Duration // set before quit is closed; above 0: how long the router is asked to keep the session up
	ended     chan struct{}
	published atomic.Int32 // bfd.StateType
}

// newBFDSession opens the sockets of a session that begin will start. It sends what
// happens to events until the session is closed.
func newBFDSession(t bfdTerms, listeners *bfdListeners, log *slog.Logger, events chan<- bfdEvent) (*bfdSession, error) {
	if !t.local.IsValid() || t.profile.Multiplier == 0 {
		return nil, fmt.Errorf("%w: BFD needs an address of this machine and a multiplier", ErrTerms)
	}
	s := &bfdSession{
		terms: t, log: log, events: events, port: t.port(), received: make(chan bfdPacket, 16),
		start: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	s.published.Store(int32(bfd.StateDown))
	var err error
	if s.conn, err = dialBFD(t, s.port); err != nil {
		return nil, fmt.Errorf("BFD: %w", err)
	}
	for _, port := range t.ports() {
		listener, err := listeners.register(s, port)
		if err != nil {
			s.conn.Close()
			s.unregister()
			return nil, fmt.Errorf("BFD: %w", err)
		}
		s.listeners = append(s.listeners, listener)
	}
	go s.run()
	return s, nil
}

func (s *bfdSession) unregister() {
	for _, l := range s.listeners {
		l.unregister(s)
	}
}

// begin starts the session, if it has not begun yet.
func (s *bfdSession) begin() { s.startOnce.Do(func() { close(s.start) }) }

// dialBFD opens the socket to send from, at a port that RFC 5881, section 4, allows.
func dialBFD(t bfdTerms, port uint16) (*net.UDPConn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) { set = sendOptions(int(fd), t.router) }); err != nil {
			return err
		}
		return set
	}}
	to := netip.AddrPortFrom(t.router, port).String()
	var last error
	for range 20 {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(t.local, uint16(firstSourcePort+rand.IntN(sourcePorts))))
		conn, err := d.Dial("udp", to)
		if err == nil {
			return conn.(*net.UDPConn), nil
		}
		last = err
	}
	if op := (*net.OpError)(nil); errors.As(last, &op) {
		last = op.Err // without the port, which is another one each time
	}
	return nil, fmt.Errorf("from %v to %s: %w", t.local, to, last)
}

func sendOptions(fd int, router netip.Addr) error {
	if router.Is4() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, dscpCS6); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 255)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, dscpCS6); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255)
}

// run owns the detector.
func (s *bfdSession) run() {
	defer close(s.ended)
	defer func() { s.conn.Close() }()
	select {
	case <-s.start:
	case <-s.quit:
		return
	}
	for len(s.received) > 0 {
		<-s.received // it arrived before the session began
	}
	l := &bfdLoop{bfdSession: s, detector: newDetector(s.terms.profile, discriminator(s.terms)), nextSend: time.Now().Add(bfdStartDelay)}
	timer := time.NewTimer(bfdStartDelay)
	defer timer.Stop()
	for {
		select {
		case p := <-s.received:
			l.onPacket(p)
		case <-timer.C:
			l.checkDeadline(time.Now())
		case <-s.quit:
			s.end(l.detector)
			return
		}
		timer.Reset(max(time.Until(l.sendDue(time.Now())), 0) + time.Microsecond)
	}
}

// bfdLoop is a session at work.
type bfdLoop struct {
	*bfdSession
	*detector
	nextSend time.Time // when to send the next packet
	deadline time.Time // the session times out after it; zero: it does not
	extended bool
}

func (l *bfdLoop) onPacket(p bfdPacket) {
	if l.state != bfd.StateUp {
		l.sendTo(p.port)
	}
	before := l.interval()
	e, reply := l.detector.receive(p.BFDHeader, time.Now())
	if reply {
		l.send(l.detector, true)
	}
	if e == bfdCameUp || l.interval() < before {
		l.nextSend = time.Now() // the router counts on the shorter interval from now on
	}
	l.publish(l.detector, e)
	l.extended = false
}

// sendTo moves the session to the port that the router itself sends to.
func (s *bfdSession) sendTo(port uint16) {
	if port == s.port {
		return
	}
	conn, err := dialBFD(s.terms, port)
	if err != nil {
		return // BFD itself notices if nothing arrives
	}
	s.conn.Close()
	s.conn, s.port = conn, port
}

// checkDeadline ends the session after the detection time. A machine that is starved
// of CPU wakes up late, and reads what the router sent meanwhile only after this: the
// deadline is extended once.
func (l *bfdLoop) checkDeadline(now time.Time) {
	if l.deadline.IsZero() || !now.After(l.deadline) || len(l.received) > 0 {
		return
	}
	if extra := l.terms.profile.Interval; !l.extended && now.Sub(l.deadline) > extra/4 {
		l.extended, l.lastPacket = true, now.Add(extra-l.detectionTime())
		return
	}
	l.publish(l.detector, l.timeOut())
}

// sendDue sends what is due, and returns when to look again.
func (l *bfdLoop) sendDue(now time.Time) time.Time {
	if !now.Before(l.nextSend) {
		if l.remoteWantsPackets() {
			l.send(l.detector, false)
		}
		l.nextSend = now.Add(l.untilNext())
	}
	l.deadline = time.Time{}
	if !l.detects() {
		return l.nextSend
	}
	l.deadline = l.lastPacket.Add(l.detectionTime())
	if l.deadline.Before(l.nextSend) {
		return l.deadline
	}
	return l.nextSend
}

// publish shows the new state, and passes the event on.
func (s *bfdSession) publish(d *detector, e bfdEvent) {
	s.published.Store(int32(d.state))
	switch e {
	case bfdCameUp:
		s.log.Info("BFD is up")
	case bfdTimedOut, bfdNeighborDown:
		s.log.Warn("BFD lost the router", "diagnostic", d.diagnostic.String())
	case bfdAdminDown:
		s.log.Info("the router ended BFD")
	case bfdRestarted:
		s.log.Info("the router began BFD anew")
	default:
		return
	}
	select {
	case s.events <- e:
	case <-s.quit:
	}
}

// send sends the state as it is. An error needs no answer: BFD itself notices if
// nothing arrives.
func (s *bfdSession) send(d *detector, final bool) {
	b, err := d.packet(final).MarshalBinary()
	if err == nil {
		_, _ = s.conn.Write(b)
	}
}

// adminDownPackets is how often the end of a session is sent: any of them may get lost.
const adminDownPackets = 3

// end hands the session over to the next process if it can, or shuts it down.
func (s *bfdSession) end(d *detector) {
	if s.holdFor > 0 && d.state == bfd.StateUp && s.handOver(d) {
		return
	}
	s.sendAdminDown(d)
}

// sendAdminDown ends the session in order: for the router the path is not lost, and
// it need not end the BGP session (RFC 5882, section 4.2).
func (s *bfdSession) sendAdminDown(d *detector) {
	d.state, d.diagnostic, d.poll = bfd.StateAdminDown, bfd.DiagnosticAdministrativelyDown, false
	s.published.Store(int32(d.state))
	for range adminDownPackets {
		s.send(d, false)
	}
}

// handOver makes the router wait for the process that follows for as long as it would
// keep the routes, and reports whether it will. The router learns a new interval by a
// poll that it confirms (RFC 5880, section 6.8.3).
func (s *bfdSession) handOver(d *detector) bool {
	d.slowDown(s.holdFor)
	for range d.profile.Multiplier {
		s.send(d, false)
		again := time.After(d.profile.Interval)
		for waiting := true; waiting; {
			select {
			case p := <-s.received:
				if _, reply := d.receive(p.BFDHeader, time.Now()); reply {
					s.send(d, true)
				}
				if !d.poll || d.state != bfd.StateUp {
					return d.state == bfd.StateUp
				}
			case <-again:
				waiting = false
			}
		}
	}
	return false
}

// close ends the session and waits until it has ended. holdFor is how long the router
// is asked to keep it up for the process that follows; 0: none follows.
func (s *bfdSession) close(holdFor time.Duration) {
	s.holdFor = holdFor
	close(s.quit)
	<-s.ended
	s.unregister()
}

func (s *bfdSession) String() string { return bfd.StateType(s.published.Load()).String() }
