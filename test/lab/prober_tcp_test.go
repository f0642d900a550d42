package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"plinth.dev/plinth/test/lab/netns"
)

// TestAProberOfConnectionsReportsWhatKernelsDid with connections that meet each fault, in both families: a client
// whose ways to VIPs lead through one of two machines, where they end.
func TestAProberOfConnectionsReportsWhatKernelsDid(t *testing.T) {
	s := newTCPStand(t)
	for family, vips := range []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:113::/64")} {
		good, refused, reset, silent, unreachable, again, moved := next(&vips), next(&vips), next(&vips), next(&vips), next(&vips), next(&vips), next(&vips)
		s.serve(good, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") })
		s.serve(reset, func(c net.Conn) { s.must(c.(*net.TCPConn).SetLinger(0)) })
		s.serve(silent, func(net.Conn) {})
		s.serve(again, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") })
		s.serve(moved, func(c net.Conn) { s.route(moved, 1); fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n") })
		s.own(0, refused)
		s.own(1, moved)
		s.must(netns.IP(s.machines[0], "route add unreachable "+VIPPrefix(unreachable).String()))
		ip := []string{"ip", "ip6"}[family]
		s.nft(s.machines[0], fmt.Sprintf("table inet lossy_%s { chain in { type filter hook input priority 0; %s daddr %s tcp flags & (syn|ack) == syn numgen inc mod 2 0 drop; }; }", ip, ip, again))

		p := s.prober()
		for p.one(good); p.all[0].again > 0; p.one(good) { // its way was not resolved yet
			p = s.prober()
		}
		p.all = nil
		for _, vip := range []netip.Addr{good, refused, reset, silent, unreachable, again, moved} {
			p.one(vip)
		}
		reports, err := p.Stop(t.Context())
		s.must(err)
		for i, want := range []string{"", "refused 1", "reset 1", "unanswered 1", "unreachable 1", "SYN sent again 1", ""} {
			r := reports[i]
			if err := r.Err(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "faults: "+want+"\n") {
				t.Errorf("want %q: %s: %v", want, r, err)
			}
			says := []string{"given no pod's address by m0, ICMP destination unreachable, code 1, from 10.0.0.0", "given no pod's address by m0, ICMP destination unreachable, code 0, from fd00::2"}[family]
			if err := r.Err(); err != nil && strings.Contains(err.Error(), says) != (r.VIP == unreachable) {
				t.Errorf("%v\nwant %q of %s alone", err, says, unreachable)
			}
			if wantMoved := r.VIP == moved; r.Connections != 1 || (r.Moved == 1) != wantMoved {
				t.Errorf("%s: %d connections, %d moved", r.VIP, r.Connections, r.Moved)
			}
		}
	}
}

// TestASYNThatIsSentAgainIsNoFaultWhereTheMachineStoodStillForASecond, and no shorter stall excuses it.
func TestASYNThatIsSentAgainIsNoFaultWhereTheMachineStoodStillForASecond(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from, to   time.Duration // of a stall
		stoodStill int
	}{
		{100 * time.Millisecond, 1100 * time.Millisecond, 1},
		{-2 * time.Second, time.Millisecond, 1}, // it was going on when the SYN was sent
		{100 * time.Millisecond, 1050 * time.Millisecond, 0},
		{-2 * time.Second, -time.Millisecond, 0},
		{2 * time.Second, 4 * time.Second, 0},
	} {
		p := &TCPProber{errors: new(icmpErrors)}
		p.stalls.StandsStill(begun.Add(c.from), begun.Add(c.to))
		r := TCPReport{Faults: map[TCPFault]int{}}
		again := connection{begun: begun, established: begun.Add(1200 * time.Millisecond), ended: begun.Add(1201 * time.Millisecond), again: 1}
		if err := p.count(&r, again, passage{}); err != nil || r.StoodStill != c.stoodStill || r.Faults[SentAgain] != 1-c.stoodStill {
			t.Errorf("a stall from %s to %s: %s, %v", c.from, c.to, r, err)
		}
	}
}

// TestAConnectionThatIsGivenUpIsNoFaultWhereTheMachineStoodStill for a second of its time.
func TestAConnectionThatIsGivenUpIsNoFaultWhereTheMachineStoodStill(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		stall      time.Duration
		err        error
		stoodStill int
	}{
		{time.Second, os.ErrDeadlineExceeded, 1},
		{time.Second, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}, 1},
		{900 * time.Millisecond, os.ErrDeadlineExceeded, 0},
		{time.Second, io.ErrUnexpectedEOF, 0}, // its server ended it
	} {
		p := &TCPProber{errors: new(icmpErrors)}
		p.stalls.StandsStill(begun.Add(8*time.Second), begun.Add(8*time.Second+c.stall))
		r := TCPReport{Faults: map[TCPFault]int{}}
		given := connection{begun: begun, established: begun.Add(time.Millisecond), ended: begun.Add(tcpPatience), err: c.err}
		if err := p.count(&r, given, passage{}); err != nil || r.StoodStill != c.stoodStill || r.Faults[Unanswered] != 1-c.stoodStill {
			t.Errorf("a stall of %s, then %v: %s, %v", c.stall, c.err, r, err)
		}
	}
}

// TestAConnectionHasOneFault of what it met.
func TestAConnectionHasOneFault(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		established bool
		again       int
		err         error
		want        TCPFault
	}{
		{false, 0, syscall.ECONNREFUSED, Refused},
		{false, 0, syscall.EHOSTUNREACH, Unreachable},
		{false, 0, syscall.ENETUNREACH, Unreachable},
		{false, 0, fmt.Errorf("%w: %w", context.DeadlineExceeded, syscall.EHOSTUNREACH), Unreachable},
		{false, 0, context.DeadlineExceeded, Unanswered},
		{false, 0, syscall.EMFILE, ""},
		{true, 0, syscall.ECONNRESET, Reset},
		{true, 0, syscall.EPIPE, Reset},
		{true, 0, net.ErrClosed, Unanswered},
		{true, 1, nil, SentAgain},
		{true, 1, syscall.ECONNRESET, SentAgain},
	} {
		one := connection{again: c.again, err: c.err}
		if c.established {
			one.established = now
		}
		if got, err := one.fault(); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestAnICMPErrorThatQuotesTooLittleIsOfNoConnection at whatever byte it ends.
func TestAnICMPErrorThatQuotesTooLittleIsOfNoConnection(t *testing.T) {
	for _, c := range []struct {
		protocol, head int // bytes before the port numbers
		kind           icmp.Type
		client, vip    string
		says           string
	}{
		{1, 20, ipv4.ICMPTypeTimeExceeded, "198.51.100.10", "203.0.113.7", "ICMP time exceeded, code 1,"},
		{protocolICMPv6, 40, ipv6.ICMPTypeDestinationUnreachable, "2001:db8:51::10", "2001:db8:113::7", "ICMP destination unreachable, code 1,"},
	} {
		client, vip := netip.MustParseAddr(c.client), netip.MustParseAddr(c.vip)
		quoted := make([]byte, c.head+8)
		quoted[0] = 0x45
		addresses := slices.Concat(client.AsSlice(), vip.AsSlice())
		copy(quoted[c.head-len(addresses):], addresses)
		quoted[c.head], quoted[c.head+1] = 0x0b, 0xc0 // 3008
		m := icmp.Message{Type: c.kind, Code: 1, Body: &icmp.TimeExceeded{Data: quoted}}
		message, err := m.Marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(message) + 1 {
			f, says, ok := readICMPError(c.protocol, message[:n])
			if whole := n >= 8+c.head+4; ok != whole || whole && (f != flow{vip, 3008} || says != c.says) {
				t.Errorf("%d bytes of an error of %s: %v, %q, %t", n, vip, f, says, ok)
			}
		}
	}
}

// tcpStand is a client and two machines, each at the end of a cable of its own.
type tcpStand struct {
	t        *testing.T
	client   string
	machines []string
}

func newTCPStand(t *testing.T) *tcpStand {
	s := &tcpStand{t: t, client: "plt-tcp-c", machines: []string{"plt-tcp-0", "plt-tcp-1"}}
	for _, name := range append([]string{s.client}, s.machines...) {
		s.must(netns.Delete(name)) // of a run that was killed
		s.must(netns.Add(name))
		t.Cleanup(func() { s.must(netns.Delete(name)) })
		s.must(netns.Sysctl(name, "net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1"))
	}
	s.must(netns.IP(s.client, "addr add "+VIPPrefix(ClientAddress.V4).String()+" dev lo", "addr add "+VIPPrefix(ClientAddress.V6).String()+" dev lo nodad"))
	for i, m := range s.machines {
		s.must(netns.IP("", fmt.Sprintf("link add m%d netns %s type veth peer name c netns %s", i, s.client, m)))
		s.must(netns.IP(s.client, fmt.Sprintf("addr add 10.0.%d.1/31 dev m%d", i, i), fmt.Sprintf("addr add fd00:%d::1/64 dev m%d nodad", i, i), fmt.Sprintf("link set m%d up", i)))
		s.must(netns.IP(m, fmt.Sprintf("addr add 10.0.%d.0/31 dev c", i), fmt.Sprintf("addr add fd00:%d::2/64 dev c nodad", i), "link set c up"))
		s.must(netns.IP(m, fmt.Sprintf("route add %s via 10.0.%d.1", ClientAddress.V4, i), fmt.Sprintf("route add %s via fd00:%d::1", ClientAddress.V6, i)))
	}
	s.must(netns.IP(s.client, "route add 203.0.113.0/24 via 10.0.0.0 src "+ClientAddress.V4.String(), "route add 2001:db8:113::/64 via fd00:0::2 src "+ClientAddress.V6.String()))
	return s
}

// prober opens no connection by itself.
func (s *tcpStand) prober() *TCPProber {
	s.t.Helper()
	paths, err := notePaths(s.t.Context(), map[string]string{"m0": s.machines[0], "m1": s.machines[1]})
	s.must(err)
	said, err := noteICMPErrors(s.client)
	s.must(err)
	p := &TCPProber{dialer: netns.NewDialer(s.client), ports: new(ports), paths: paths, errors: said}
	p.start(s.t.Context(), 1, nil)
	return p
}

func (s *tcpStand) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *tcpStand) nft(namespace, rules string) {
	s.t.Helper()
	_, err := netns.Output(s.t.Context(), namespace, "nft", rules)
	s.must(err)
}

// own gives a VIP to a machine.
func (s *tcpStand) own(machine int, vip netip.Addr) {
	s.t.Helper()
	s.must(netns.IP(s.machines[machine], "addr add "+VIPPrefix(vip).String()+" dev lo"+map[bool]string{true: " nodad"}[vip.Is6()]))
}

// route has the client send to a VIP through a machine.
func (s *tcpStand) route(vip netip.Addr, machine int) {
	via, src := fmt.Sprintf("10.0.%d.0", machine), ClientAddress.V4
	if vip.Is6() {
		via, src = fmt.Sprintf("fd00:%d::2", machine), ClientAddress.V6
	}
	if err := netns.IP(s.client, fmt.Sprintf("route add %s via %s src %s", VIPPrefix(vip), via, src)); err != nil {
		s.t.Error(err)
	}
}

// serve has the first machine answer at a VIP, once it has read a request.
func (s *tcpStand) serve(vip netip.Addr, answer func(net.Conn)) {
	s.t.Helper()
	s.own(0, vip)
	l, err := netns.Listen(s.machines[0], netip.AddrPortFrom(vip, WebPort).String())
	s.must(err)
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := c.Read(make([]byte, 1024)); err == nil {
				answer(c)
			}
			c.Close()
		}
	}()
}

// next is the next address of a prefix.
func next(p *netip.Prefix) netip.Addr {
	a := p.Addr().Next()
	*p = netip.PrefixFrom(a, p.Bits())
	return a
}
