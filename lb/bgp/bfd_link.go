package bgp

import (
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
	bfdPort      = 3784 // RFC 5881, section 4
	bfdPortFar   = 4784 // RFC 5883, section 5: more than one hop
	firstSource  = 49152
	sources      = 1 << 14
	networkClass = 0xc0 // DSCP CS6
)

// bfdTerms are what a BFD session is between; they compare with ==.
type bfdTerms struct {
	local, router netip.Addr
	far           bool // more than one hop
	profile       inventory.BFDProfile
}

func bfdOf(s inventory.Session) bfdTerms {
	return bfdTerms{local: s.Local, router: s.RouterAddr, far: s.Multihop > 1, profile: s.BFD}
}

// port is where this machine begins to send to.
func (t bfdTerms) port() uint16 {
	if t.far {
		return bfdPortFar
	}
	return bfdPort
}

// ports are those that a router may send to. FRR takes every session with TTL security
// for one over several hops: what is directly connected is told by the TTL alone.
func (t bfdTerms) ports() []uint16 {
	if t.far {
		return []uint16{bfdPortFar}
	}
	return []uint16{bfdPort, bfdPortFar}
}

// bfdSettles is how long a session that begins listens before it speaks. A router that
// still has it up from an earlier process is heard in that time; and FRR, which sets
// its own side up only once BGP is up, has done that.
const bfdSettles = time.Second

// link runs one BFD session.
type link struct {
	terms bfdTerms
	log   *slog.Logger
	tell  chan<- change
	ears  []*ear
	out   *net.UDPConn
	port  uint16 // that out sends to
	in    chan packet
	begun sync.Once
	start chan struct{} // closed: speak
	quit  chan struct{} // closed: end
	keep  time.Duration // read then; more than 0: for so long the router is to keep the session
	ended chan struct{}
	now   atomic.Int32 // bfd.StateType
}

// newLink opens the sockets of a session that begin will start. Tell is told of
// every change until the link is closed.
func newLink(t bfdTerms, ears *ears, log *slog.Logger, tell chan<- change) (*link, error) {
	if !t.local.IsValid() || t.profile.Multiplier == 0 {
		return nil, fmt.Errorf("%w: BFD needs an address of this machine and a multiplier", ErrTerms)
	}
	l := &link{
		terms: t, log: log, tell: tell, port: t.port(), in: make(chan packet, 16),
		start: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	l.now.Store(int32(bfd.StateDown))
	var err error
	if l.out, err = dialBFD(t, l.port); err != nil {
		return nil, fmt.Errorf("BFD: %w", err)
	}
	for _, port := range t.ports() {
		ear, err := ears.join(l, port)
		if err != nil {
			l.out.Close()
			l.leave()
			return nil, fmt.Errorf("BFD: %w", err)
		}
		l.ears = append(l.ears, ear)
	}
	go l.run()
	return l, nil
}

func (l *link) leave() {
	for _, x := range l.ears {
		x.leave(l)
	}
}

// begin starts the session, if it has not begun yet.
func (l *link) begin() { l.begun.Do(func() { close(l.start) }) }

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
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(t.local, uint16(firstSource+rand.IntN(sources))))
		conn, err := d.Dial("udp", to)
		if err == nil {
			return conn.(*net.UDPConn), nil
		}
		last = err
	}
	return nil, last
}

func sendOptions(fd int, router netip.Addr) error {
	if router.Is4() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, networkClass); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 255)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, networkClass); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255)
}

// run owns the detector.
func (l *link) run() {
	defer close(l.ended)
	defer func() { l.out.Close() }()
	select {
	case <-l.start:
	case <-l.quit:
		return
	}
	for len(l.in) > 0 {
		<-l.in // said before anybody listened
	}
	w := &watch{link: l, detector: newDetector(l.terms.profile, discriminator(l.terms)), next: time.Now().Add(bfdSettles)}
	timer := time.NewTimer(bfdSettles)
	defer timer.Stop()
	for {
		select {
		case p := <-l.in:
			w.hear(p)
		case <-timer.C:
			w.check(time.Now())
		case <-l.quit:
			l.end(w.detector)
			return
		}
		timer.Reset(max(time.Until(w.turn(time.Now())), 0) + time.Microsecond)
	}
}

// watch is a session at work.
type watch struct {
	*link
	*detector
	next   time.Time // when to send
	limit  time.Time // silence until then is no loss; zero: it never is
	spared bool
}

func (w *watch) hear(p packet) {
	if w.state != bfd.StateUp {
		w.answerAt(p.port)
	}
	before := w.interval()
	c, reply := w.detector.hear(p.BFDHeader, time.Now())
	if reply {
		w.send(w.detector, true)
	}
	if c == cameUp || w.interval() < before {
		w.next = time.Now() // the router counts on the shorter interval from now on
	}
	w.became(w.detector, c)
	w.spared = false
}

// answerAt has packets go to the port that the router's own come to.
func (l *link) answerAt(port uint16) {
	if port == l.port {
		return
	}
	out, err := dialBFD(l.terms, port)
	if err != nil {
		return // what gets lost on the way is what BFD is about
	}
	l.out.Close()
	l.out, l.port = out, port
}

// check ends the session after a silence. A machine that is starved of CPU wakes up
// late, and finds what the router sent in the meantime only after this: it gets one
// more chance.
func (w *watch) check(now time.Time) {
	if w.limit.IsZero() || !now.After(w.limit) || len(w.in) > 0 {
		return
	}
	if spare := w.terms.profile.Interval; !w.spared && now.Sub(w.limit) > spare/4 {
		w.spared, w.heard = true, now.Add(spare-w.patience())
		return
	}
	w.became(w.detector, w.silent())
}

// turn sends what is due, and returns when to look again.
func (w *watch) turn(now time.Time) time.Time {
	if !now.Before(w.next) {
		if w.wanted() {
			w.send(w.detector, false)
		}
		w.next = now.Add(w.pause())
	}
	w.limit = time.Time{}
	if !w.listening() {
		return w.next
	}
	w.limit = w.heard.Add(w.patience())
	if w.limit.Before(w.next) {
		return w.limit
	}
	return w.next
}

// became tells of a change.
func (l *link) became(d *detector, c change) {
	l.now.Store(int32(d.state))
	switch c {
	case cameUp:
		l.log.Info("BFD is up")
	case pathLost, toldDown:
		l.log.Warn("BFD lost the router", "diagnostic", d.diagnostic.String())
	case shutRemote:
		l.log.Info("the router ended BFD")
	case begunAgain:
		l.log.Info("the router began BFD anew")
	default:
		return
	}
	select {
	case l.tell <- c:
	case <-l.quit:
	}
}

// send sends the state as it is. What gets lost on the way is what BFD is about.
func (l *link) send(d *detector, final bool) {
	b, err := d.packet(final).MarshalBinary()
	if err == nil {
		_, _ = l.out.Write(b)
	}
}

// farewells is how often the end of a session is said: any of them may get lost.
const farewells = 3

// end is the last of a session.
func (l *link) end(d *detector) {
	if l.keep > 0 && d.state == bfd.StateUp && l.handOver(d) {
		return
	}
	l.farewell(d)
}

// farewell says that the session ends: for the router this is no loss of the path,
// and it need not end the BGP session (RFC 5882, section 4.2).
func (l *link) farewell(d *detector) {
	d.state, d.diagnostic, d.poll = bfd.StateAdminDown, bfd.DiagnosticAdministrativelyDown, false
	l.now.Store(int32(d.state))
	for range farewells {
		l.send(d, false)
	}
}

// handOver has the router wait for the process that follows, as long as it would
// keep that one's routes, and reports whether it will. The router learns a new
// interval by a poll that it confirms (RFC 5880, section 6.8.3).
func (l *link) handOver(d *detector) bool {
	d.slowDown(l.keep)
	for range d.profile.Multiplier {
		l.send(d, false)
		again := time.After(d.profile.Interval)
		for waiting := true; waiting; {
			select {
			case p := <-l.in:
				if _, reply := d.hear(p.BFDHeader, time.Now()); reply {
					l.send(d, true)
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

// close ends the session, and waits for it. Keep is how long the router is to keep
// it for the process that follows; 0: there is none.
func (l *link) close(keep time.Duration) {
	l.keep = keep
	close(l.quit)
	<-l.ended
	l.leave()
}

func (l *link) String() string { return bfd.StateType(l.now.Load()).String() }
