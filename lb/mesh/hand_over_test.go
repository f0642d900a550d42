package mesh

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
)

// said is what a host of the test's hears of a session.
type said struct {
	state bfd.State
	poll  bool
}

// stubborn is a host with which sessions come up, and that may cease to confirm polls.
type stubborn struct {
	conn     *net.UDPConn
	heard    chan said // the newest
	confirms atomic.Bool
}

func beStubborn(t *testing.T, at netip.Addr) *stubborn {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_TTL, 255) })
		return err
	}}
	conn, err := lc.ListenPacket(t.Context(), "udp4", netip.AddrPortFrom(at, 3784).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &stubborn{conn: conn.(*net.UDPConn), heard: make(chan said, 1)}
	s.confirms.Store(true)
	done := make(chan struct{})
	go func() { defer close(done); s.answer() }()
	t.Cleanup(func() { s.conn.Close(); <-done })
	return s
}

// answer answers each packet by one that brings the session up, or keeps it up (RFC 5880, section 6.8.6).
func (s *stubborn) answer() {
	b := make([]byte, 64)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if n < 24 {
			continue
		}
		heard := said{bfd.State(b[1] >> 6), b[1]&0x20 != 0}
		select {
		case <-s.heard:
		default:
		}
		s.heard <- heard
		state := bfd.Up
		if heard.state == bfd.Down {
			state = bfd.Init
		}
		out := []byte{1 << 5, byte(state) << 6, 20, 24}
		if heard.poll && s.confirms.Load() {
			out[1] |= 0x10
		}
		out = binary.BigEndian.AppendUint32(out, 7)
		out = append(out, b[4:8]...)
		out = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(out, 100_000), 100_000)
		_, _ = s.conn.WriteToUDPAddrPort(append(out, 0, 0, 0, 0), netip.AddrPortFrom(from.Addr(), 3784))
	}
}

// until waits until the host hears something.
func (s *stubborn) until(t *testing.T, what string, ok func(said) bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case x := <-s.heard:
			if ok(x) {
				return
			}
		case <-late:
			t.Fatal("it never hears", what)
		}
	}
}

func TestAMachineAnswersOnWhileItHandsOver(t *testing.T) {
	for handOver, want := range map[time.Duration]bool{time.Minute: true, 0: false} {
		other := beStubborn(t, host(12))
		m := begin(t, Options{}, between(11, 12))
		until(t, m, standing(0, advertise.Up))
		other.until(t, "that it is up", func(x said) bool { return x.state == bfd.Up && !x.poll })
		other.confirms.Store(false)
		m.Acted(m.State())
		closed := make(chan struct{})
		go func() { m.Close(context.Background(), handOver); close(closed) }()
		other.until(t, "the end", func(x said) bool { return x.poll || x.state == bfd.AdminDown })
		if answers := m.AnswersUntil(loopback) > uptime.Now(); answers != want {
			t.Errorf("hand-over for %v: meanwhile it answers: %v", handOver, answers)
		}
		<-closed
		if m.AnswersUntil(loopback) != 0 || m.State() != nil {
			t.Errorf("hand-over for %v: it answers on: %v", handOver, m.State())
		}
		other.conn.Close()
	}
}
