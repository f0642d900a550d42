package bgp

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
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

func (t bfdTerms) port() uint16 {
	if t.far {
		return bfdPortFar
	}
	return bfdPort
}

// link runs one BFD session.
type link struct {
	terms bfdTerms
	log   *slog.Logger
	tell  chan<- change
	ear   *ear
	out   *net.UDPConn
	in    chan bfd.BFDHeader
	quit  chan struct{}
	ended chan struct{}
	now   atomic.Int32 // bfd.StateType
}

// newLink starts a session. Tell is told of every change until the link is closed.
func newLink(t bfdTerms, ears *ears, log *slog.Logger, tell chan<- change) (*link, error) {
	if !t.local.IsValid() || t.profile.Multiplier == 0 {
		return nil, fmt.Errorf("%w: BFD needs an address of this machine and a multiplier", ErrTerms)
	}
	l := &link{
		terms: t, log: log, tell: tell,
		in: make(chan bfd.BFDHeader, 16), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	l.now.Store(int32(bfd.StateDown))
	var err error
	if l.out, err = dialBFD(t); err != nil {
		return nil, fmt.Errorf("BFD: %w", err)
	}
	if l.ear, err = ears.join(l); err != nil {
		l.out.Close()
		return nil, fmt.Errorf("BFD: %w", err)
	}
	go l.run()
	return l, nil
}

// dialBFD opens the socket to send from, at a port that RFC 5881, section 4, allows.
func dialBFD(t bfdTerms) (*net.UDPConn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if err := c.Control(func(fd uintptr) { set = sendOptions(int(fd), t.router) }); err != nil {
			return err
		}
		return set
	}}
	to := netip.AddrPortFrom(t.router, t.port()).String()
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
	defer l.out.Close()
	d := newDetector(l.terms.profile)
	next := time.Now()
	var limit time.Time // silence until then is no loss; zero: it never is
	spared := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case h := <-l.in:
			before := d.interval()
			c, reply := d.hear(h, time.Now())
			if reply {
				l.send(d, true)
			}
			if d.interval() < before {
				next = time.Now() // the router counts on the shorter interval from now on
			}
			l.became(d, c)
			spared = false
		case <-timer.C:
			now := time.Now()
			if !limit.IsZero() && now.After(limit) && len(l.in) == 0 {
				// A machine that is starved of CPU wakes up late, and finds what the router sent
				// in the meantime only after this: it gets one more chance.
				if spare := l.terms.profile.Interval; !spared && now.Sub(limit) > spare/4 {
					spared, limit = true, now.Add(spare)
					d.heard = limit.Add(-d.patience())
				} else {
					l.became(d, d.silent())
				}
			}
		case <-l.quit:
			l.farewell(d)
			return
		}
		if now := time.Now(); !now.Before(next) {
			if d.wanted() {
				l.send(d, false)
			}
			next = now.Add(d.pause())
		}
		limit = time.Time{}
		wake := next
		if d.listening() {
			limit = d.heard.Add(d.patience())
			if limit.Before(wake) {
				wake = limit
			}
		}
		timer.Reset(max(time.Until(wake), 0) + time.Microsecond)
	}
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

// farewell says that the session ends: for the router this is no loss of the path,
// and it need not end the BGP session (RFC 5882, section 4.2).
func (l *link) farewell(d *detector) {
	d.state, d.diagnostic, d.poll = bfd.StateAdminDown, bfd.DiagnosticAdministrativelyDown, false
	l.now.Store(int32(d.state))
	for range farewells {
		l.send(d, false)
	}
}

// close ends the session, and waits for it.
func (l *link) close() {
	l.ear.leave(l)
	close(l.quit)
	<-l.ended
}

func (l *link) String() string { return bfd.StateType(l.now.Load()).String() }
