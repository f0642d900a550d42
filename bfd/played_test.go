package bfd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/wait"
)

// peer is the other end of a session on loopback, played by the test.
type peer struct {
	t        *testing.T
	addr, to netip.Addr
	port     uint16
	rx       *net.UDPConn
	ttl, tos int // of the last packet received
	from     netip.AddrPort
	s        *Session
	*detector
}

// loopback are terms between two addresses of this machine that no other test has.
func loopback(n byte) Terms {
	return Terms{
		Local: netip.AddrFrom4([4]byte{127, 0, 8, n}), Remote: netip.AddrFrom4([4]byte{127, 0, 7, n}),
		Timers: Timers{Interval: 100 * time.Millisecond, Multiplier: 20},
	}
}

// open opens a session that the test closes.
func open(t *testing.T, ls *Listeners, terms Terms) *Session {
	t.Helper()
	s, err := ls.Open(terms, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background(), 0) })
	return s
}

// listens has the test receive what a session sends, before it begins.
func listens(t *testing.T, terms Terms) *peer {
	t.Helper()
	r := &peer{t: t, addr: terms.Remote, to: terms.Local, port: terms.port(), detector: newDetector(terms.Timers, 4711)}
	var err error
	if r.rx, err = listen(netip.AddrPortFrom(r.addr, r.port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.rx.Close() })
	raw, err := r.rx.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1) }), err); err != nil {
		t.Fatal(err)
	}
	r.s = open(t, NewListeners(), terms)
	return r
}

// up brings up a session of these terms, both ends of it: the session is up from the moment when
// its peer says that it begins.
func up(t *testing.T, terms Terms) *peer {
	t.Helper()
	r := listens(t, terms)
	r.s.Begin()
	for st := r.s.Status(); st.State != Up || st.Peer != Up || r.poll; st = r.s.Status() {
		r.answer(0)
	}
	return r
}

// hears receives a packet.
func (r *peer) hears() packet {
	r.t.Helper()
	buf, oob := make([]byte, 100), make([]byte, 100)
	_ = r.rx.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, m, _, from, err := r.rx.ReadMsgUDPAddrPort(buf, oob)
	if err != nil {
		r.t.Fatal(err, r.s.Status())
	}
	r.from, r.ttl = from, receivedTTL(oob[:m])
	messages, _ := unix.ParseSocketControlMessage(oob[:m])
	for _, m := range messages {
		if m.Header.Type == unix.IP_TOS {
			r.tos = int(m.Data[0])
		}
	}
	p, ok := parse(buf[:n])
	if !ok {
		r.t.Fatalf("%x", buf[:n])
	}
	return p
}

// answer receives a packet and sends one with so much padding.
func (r *peer) answer(padding int) packet {
	r.t.Helper()
	p := r.hears()
	r.hear(p, time.Now())
	r.send(r.next(p.poll), r.port, maxTTL, padding)
	return p
}

func (r *peer) send(p packet, port uint16, ttl, padding int) {
	r.t.Helper()
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.addr, 0)), Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl) }), err)
	}}
	c, err := d.DialContext(r.t.Context(), "udp", netip.AddrPortFrom(r.to, port).String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(append(p.encode(), make([]byte, padding)...)); err != nil {
		r.t.Fatal(err)
	}
}

// eventually waits for a session to be as it should.
func eventually(t *testing.T, s *Session, what string, ok func(Status) bool) {
	t.Helper()
	wait.True(t, 20*time.Second, time.Millisecond, what, func() (bool, string) {
		now := s.Status()
		return ok(now), fmt.Sprintf("%+v", now)
	})
}

func TestPacketsLeaveAsTheRFCsHaveThem(t *testing.T) {
	t.Parallel()
	oneHop, twoHops := loopback(20), loopback(21)
	twoHops.Multihop = true
	for want, terms := range map[uint16]Terms{port: oneHop, multihopPort: twoHops} {
		r := up(t, terms)
		if r.port != want || r.ttl != maxTTL || r.tos != dscpCS6 || r.from.Port() < firstSourcePort {
			t.Errorf("a packet from %v to port %d with TTL %d and TOS %#x", r.from, r.port, r.ttl, r.tos)
		}
	}
}

func TestAForgedPacketFromTooFarAwayIsDropped(t *testing.T) {
	for i, tt := range []struct {
		name     string
		multihop bool
		least    uint8
		ttl      int // of the forged packet
		taken    bool
	}{
		{"one hop", false, 0, 254, false},
		{"two hops, with TTL security", true, 254, 253, false},
		{"two hops, with TTL security, from within", true, 254, 254, true},
		{"two hops, without: BIRD sends a TTL of 64", true, 0, 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			terms := loopback(byte(i + 1))
			terms.Multihop, terms.MinTTL = tt.multihop, tt.least
			r := up(t, terms)
			before := r.s.Status()
			r.send(packet{state: Down, multiplier: 3, mine: 0xbad, minTx: time.Second, minRx: time.Second}, r.port, tt.ttl, 0)
			taken := false
			for range 10 { // packets of ours that were sent before it came, and after
				taken = taken || r.answer(0).yours == 0xbad
			}
			if now := r.s.Status(); taken != tt.taken || now != before && !tt.taken {
				t.Errorf("taken: %v, want %v: %+v", taken, tt.taken, now)
			}
		})
	}
}

// A packet with another session's discriminator came to the port of several hops, to which a
// session that is not up would follow.
func TestAForgedPacketMovesNothing(t *testing.T) {
	t.Parallel()
	r := listens(t, loopback(30))
	r.s.Begin()
	for range 3 {
		r.send(packet{state: Up, multiplier: 3, mine: 8, yours: 0xbad, minTx: time.Second, minRx: time.Second}, multihopPort, maxTTL, 0)
		if p := r.hears(); p.yours != 0 || p.state != Down {
			t.Errorf("after a forged packet it sends %+v", p)
		}
	}
}

// FRR takes a session with TTL security for one over several hops.
func TestASessionFollowsThePortThatThePeerSendsTo(t *testing.T) {
	t.Parallel()
	r := listens(t, loopback(31))
	other, err := listen(netip.AddrPortFrom(r.addr, multihopPort))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r.s.Begin()
	r.hears()
	r.rx, r.port = other, multihopPort
	r.send(r.next(false), r.port, maxTTL, 0)
	for r.s.Status().State != Up {
		r.answer(0)
	}
}

func TestASessionWhosePeerPadsItsPacketsStaysUp(t *testing.T) {
	t.Parallel()
	r := up(t, loopback(100))
	for begin := time.Now(); time.Since(begin) < 2*r.detectionTime(); {
		r.answer(8976)
	}
	if st := r.s.Status(); st.State != Up || st.Losses > 0 {
		t.Errorf("%+v", st)
	}
}

func TestASessionThatNobodyLooksAtGoesOnSendingAndForgetsNoLoss(t *testing.T) {
	t.Parallel()
	r := up(t, loopback(101))
	for n := uint64(1); n <= 3; n++ { // nobody receives from Changed, nor asks for the status
		d := r.next(false)
		d.state, d.poll = Down, false
		r.send(d, r.port, maxTTL, 0)
		for r.hears().state != Down {
			continue
		}
		r.state = Down
		for r.state != Up || r.poll {
			r.answer(0)
		}
		r.answer(0)
		if st := r.s.Status(); st.State != Up || st.Losses != n || st.LastLoss != NeighborDown {
			t.Fatalf("after %d losses: %+v", n, st)
		}
	}
	<-r.s.Changed()
	select {
	case <-r.s.Changed():
		t.Error("changes that came together gave two values")
	default:
	}
}

func TestAPeerThatAsksForDemandModeIsLeftInPeace(t *testing.T) {
	t.Parallel()
	terms := loopback(102)
	terms.Multiplier = 200 // a session that is not up sends on, and this machine may be busy for seconds
	r := up(t, terms)
	demand := r.next(false)
	demand.demand, demand.poll = true, false
	for tries := 1; !quiet(r, demand); tries++ {
		if tries == 20 {
			t.Fatalf("it goes on sending: %+v", r.s.Status())
		}
	}
	demand.poll = true // what the peer asks is answered still
	r.send(demand, r.port, maxTTL, 0)
	if p := r.hears(); !p.final || p.state != Up {
		t.Errorf("a poll is answered with %+v", p)
	}
	demand.poll, demand.demand = false, false
	r.send(demand, r.port, maxTTL, 0)
	r.hears()
	r.hears()
}

// quiet says what a peer has to say several times, and reports whether nothing came
// meanwhile.
func quiet(r *peer, p packet) bool {
	for range 4 {
		r.send(p, r.port, maxTTL, 0)
		_ = r.rx.SetReadDeadline(time.Now().Add(2 * r.Interval))
		if _, err := r.rx.Read(make([]byte, 100)); err == nil {
			return false
		}
	}
	return true
}

func TestTwoMachinesWatchEachOther(t *testing.T) {
	t.Parallel()
	terms := loopback(103)
	terms.Multiplier = 10 // a machine that is busy with other tests
	other := terms
	other.Local, other.Remote = terms.Remote, terms.Local
	a, b := open(t, NewListeners(), terms), open(t, NewListeners(), other)
	a.Begin()
	b.Begin()
	isUp := func(s Status) bool { return s.State == Up }
	eventually(t, a, "up", isUp)
	eventually(t, b, "up", isUp)
	b.Close(t.Context(), 0)
	eventually(t, a, "ended", func(s Status) bool { return s.State != Up && s.Losses == 0 })
	b = open(t, NewListeners(), other)
	b.Begin()
	eventually(t, a, "up again", isUp)
	eventually(t, b, "up again", isUp)

	b.Close(t.Context(), time.Minute) // for the process that follows
	since := a.Status().Since
	for begin := time.Now(); time.Since(begin) < 2*terms.Interval*time.Duration(terms.Multiplier); time.Sleep(terms.Interval) {
		if st := a.Status(); st.State != Up {
			t.Fatalf("nobody is there, and it did not wait: %+v", st)
		}
	}
	b = open(t, NewListeners(), other)
	b.Begin()
	eventually(t, b, "up again", isUp)
	if st := a.Status(); st.State != Up || st.Since != since {
		t.Errorf("a hand-over was noticed: %+v", st)
	}
}

func TestAnEndIsNotLongerThanItsContext(t *testing.T) {
	t.Parallel()
	terms := loopback(104)
	terms.Interval, terms.Multiplier = 5*time.Second, 10
	r := listens(t, terms)
	r.s.Begin()
	for r.s.Status().State != Up {
		p := r.hears()
		r.hear(p, time.Now())
		r.send(r.next(false), r.port, maxTTL, 0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	r.s.Close(ctx, time.Minute) // the peer does not agree
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	for r.hears().state != AdminDown {
		continue
	}
	r.s.Close(t.Context(), 0) // which is no more than the first
}

func TestASessionThatCannotBeOpenedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	terms := loopback(105)
	taken, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(terms.Local, multihopPort)))
	if err != nil {
		t.Fatal(err)
	}
	ls := NewListeners()
	if _, err := ls.Open(terms, slog.New(slog.DiscardHandler)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another program has the port, and it says %v", err)
	}
	taken.Close()
	open(t, ls, terms)
}

func TestTermsThatCannotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Terms){
		"no address":   func(t *Terms) { t.Local = netip.Addr{} },
		"two families": func(t *Terms) { t.Remote = netip.IPv6Loopback() },
		"no interval":  func(t *Terms) { t.Interval = 0 },
		"no packet":    func(t *Terms) { t.Multiplier = 0 },
	} {
		terms := loopback(106)
		change(&terms)
		if _, err := NewListeners().Open(terms, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrTerms) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A failure that is new is logged: it must not look like another one each time.
func TestASocketThatCannotBeOpenedFailsAlikeEachTime(t *testing.T) {
	elsewhere := Terms{Local: netip.MustParseAddr("192.0.2.200"), Remote: netip.MustParseAddr("192.0.2.201"), Timers: fast}
	_, once := dial(elsewhere, port)
	_, again := dial(elsewhere, port)
	if !errors.Is(once, syscall.EADDRNOTAVAIL) || fmt.Sprint(once) != fmt.Sprint(again) {
		t.Errorf("%v, then %v", once, again)
	}
}

func TestTimersChangeWhileTheSessionIsUp(t *testing.T) {
	t.Parallel()
	r := up(t, loopback(107))
	before := r.s.Status()
	next := Timers{Interval: 250 * time.Millisecond, Multiplier: 7}
	if err := r.s.SetTimers(next); err != nil {
		t.Fatal(err)
	}
	for tries := 1; ; tries++ {
		p := r.answer(0)
		if p.minTx == next.Interval && p.minRx == next.Interval && p.multiplier == next.Multiplier && !p.poll {
			break
		}
		if tries == 100 {
			t.Fatalf("it sends %+v", p)
		}
	}
	if now := r.s.Status(); now != before || r.s.Terms().Timers != next {
		t.Errorf("%+v, and was %+v; its terms are %+v", now, before, r.s.Terms())
	}
	if err := r.s.SetTimers(Timers{}); !errors.Is(err, ErrTerms) {
		t.Errorf("no timers at all: %v", err)
	}
}

func TestANewStateIsSentAtOnce(t *testing.T) {
	t.Parallel()
	terms := loopback(108)
	terms.Interval = time.Minute // what is not sent at once is not heard
	r := listens(t, terms)
	r.s.Begin()
	r.hears()
	ours := uint32(0)
	for _, step := range []struct{ said, want State }{{Down, Init}, {Init, Up}, {Down, Down}} {
		r.send(packet{state: step.said, multiplier: 3, mine: 4711, yours: ours, minTx: time.Second, minRx: time.Second}, r.port, maxTTL, 0)
		p := r.hears()
		if ours = p.mine; p.state != step.want {
			t.Errorf("told of %v it sends %+v, want %v", step.said, p, step.want)
		}
	}
}
