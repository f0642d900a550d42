package bgp

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bfd"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
)

// bfdRouter is the router's end of a BFD session on loopback, played by the test.
type bfdRouter struct {
	t        *testing.T
	addr, to netip.Addr
	port     uint16
	rx       *net.UDPConn
	events   chan bfdEvent // of our end
	*detector
}

// session brings up a session of these terms.
func (r *bfdRouter) session(s inventory.Session) {
	r.t.Helper()
	r.events = make(chan bfdEvent, 16)
	b, err := newBFDSession(bfdOf(s), &bfdListeners{byAddr: map[netip.AddrPort]*bfdListener{}}, slog.New(slog.DiscardHandler), r.events)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { b.close(0) })
	r.addr, r.to, r.port, r.detector = s.RouterAddr, s.Local, b.terms.port(), newDetector(s.BFD, 4711)
	if r.rx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.addr, r.port))); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.rx.Close() })
	b.begin()
	for b.String() != bfd.StateUp.String() {
		r.answer(0)
	}
	if e := <-r.events; e != bfdCameUp {
		r.t.Fatalf("event %d", e)
	}
}

// answer receives a packet and sends one with so much padding.
func (r *bfdRouter) answer(padding int) {
	r.t.Helper()
	buf := make([]byte, 100)
	_ = r.rx.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := r.rx.Read(buf)
	if err != nil {
		r.t.Fatal(err)
	}
	h, _ := parseBFD(buf[:n])
	r.receive(h, time.Now())
	r.send(r.packet(false), maxTTL, padding)
}

func (r *bfdRouter) send(h *bfd.BFDHeader, ttl, padding int) {
	r.t.Helper()
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.addr, 0)), Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl) }), err)
	}}
	c, err := d.DialContext(r.t.Context(), "udp", netip.AddrPortFrom(r.to, r.port).String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	b, _ := h.MarshalBinary()
	if _, err := c.Write(append(b, make([]byte, padding)...)); err != nil {
		r.t.Fatal(err)
	}
}

// loopback is a session between two addresses of this machine that no other test has.
func loopback(n byte, hops uint8, security bool) inventory.Session {
	return inventory.Session{
		Local: netip.AddrFrom4([4]byte{127, 0, 8, n}), RouterAddr: netip.AddrFrom4([4]byte{127, 0, 7, n}), Multihop: hops, TTLSecurity: security,
		BFD: inventory.BFDProfile{Interval: 100 * time.Millisecond, Multiplier: 20},
	}
}

func TestAForgedPacketFromTooFarAwayIsDropped(t *testing.T) {
	for i, tt := range []struct {
		name     string
		hops     uint8
		security bool
		ttl      int // of the forged packet
		taken    bool
	}{
		{"one hop", 0, false, 254, false},
		{"two hops, with TTL security", 2, true, 253, false},
		{"two hops, with TTL security, from within", 2, true, 254, true},
		{"two hops, without: BIRD sends a TTL of 64", 2, false, 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &bfdRouter{t: t}
			r.session(loopback(byte(i+1), tt.hops, tt.security))
			r.send(&bfd.BFDHeader{Version: 1, State: bfd.StateDown, DetectTimeMultiplier: 3, MyDiscriminator: 0xbad, DesiredMinTxInterval: 1e6, RequiredMinRxInterval: 1e6}, tt.ttl, 0)
			for range 10 { // packets of ours that were sent before it came, and after
				r.answer(0)
			}
			select {
			case e := <-r.events:
				if !tt.taken || e != bfdRestarted {
					t.Errorf("event %d", e)
				}
			default:
				if tt.taken {
					t.Error("it was dropped, and a router's own packet would have been too")
				}
			}
		})
	}
}

func TestASessionWhoseRouterPadsItsPacketsStaysUp(t *testing.T) {
	r := &bfdRouter{t: t}
	r.session(loopback(100, 0, false))
	for begin := time.Now(); time.Since(begin) < 2*r.detectionTime(); {
		r.answer(8976)
	}
	if len(r.events) > 0 {
		t.Errorf("event %d", <-r.events)
	}
}
