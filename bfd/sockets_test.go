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
)

// loopback are terms between two addresses of this machine that no other test has.
func loopback(n byte) Terms {
	return Terms{
		Local: netip.AddrFrom4([4]byte{127, 0, 8, n}), Remote: netip.AddrFrom4([4]byte{127, 0, 7, n}),
		Timers: Timers{Interval: 100 * time.Millisecond, Multiplier: 20},
	}
}

// socketPeer is the other end of a session on loopback, played by the test.
type socketPeer struct {
	peer
	addr, to netip.Addr
	port     uint16
	rx       *net.UDPConn
	padding  int // of each packet that it sends
	ttl, tos int // of the last packet received
	from     netip.AddrPort
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
func listens(t *testing.T, terms Terms) *socketPeer {
	t.Helper()
	r := &socketPeer{addr: terms.Remote, to: terms.Local, port: terms.port()}
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
	r.peer = peer{
		t: t, s: open(t, NewListeners(), terms), detector: newDetector(terms.Timers, 4711),
		hears: r.receives, says: func(p packet) { r.sends(p, r.port, maxTTL) },
	}
	return r
}

// up brings up a session of these terms, both ends of it.
func up(t *testing.T, terms Terms) *socketPeer {
	t.Helper()
	r := listens(t, terms)
	r.comesUp()
	return r
}

// receives receives a packet.
func (r *socketPeer) receives() packet {
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
	return read(r.t, buf[:n])
}

func (r *socketPeer) sends(p packet, port uint16, ttl int) {
	r.t.Helper()
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.addr, 0)), Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl) }), err)
	}}
	c, err := d.DialContext(r.t.Context(), "udp", netip.AddrPortFrom(r.to, port).String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(append(p.encode(), make([]byte, r.padding)...)); err != nil {
		r.t.Fatal(err)
	}
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
			r.sends(packet{state: Down, multiplier: 3, mine: 0xbad, minTx: time.Second, minRx: time.Second}, r.port, tt.ttl)
			taken := false
			for range 10 { // packets of ours that were sent before it came, and after
				taken = taken || r.answer().yours == 0xbad
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
		r.sends(packet{state: Up, multiplier: 3, mine: 8, yours: 0xbad, minTx: time.Second, minRx: time.Second}, multihopPort, maxTTL)
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
	r.says(r.next(false))
	for r.s.Status().State != Up {
		r.answer()
	}
}

// TestASessionWhosePeerPadsItsPacketsComesUp is of packets as long as a frame of a network with jumbo frames.
func TestASessionWhosePeerPadsItsPacketsComesUp(t *testing.T) {
	t.Parallel()
	r := listens(t, loopback(100))
	r.padding = 8976
	r.comesUp()
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
