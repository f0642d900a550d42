//go:build privileged

package onlink

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tap sends frames as they are, and receives all of an EtherType that reach an interface.
type tap struct {
	*packetSocket
	t   testing.TB
	mac MAC
}

// tap opens one on an interface of the host.
func (h *host) tap(name string, etherType uint16) *tap {
	h.t.Helper()
	index, mac := interfaceIn(h.t, h.open, name)
	return newTap(h.t, h.open, index, etherType, mac)
}

func newTap(t testing.TB, open opener, index int, etherType uint16, mac MAC) *tap {
	t.Helper()
	var everything program // but what is sent here
	everything.load(unix.BPF_W, packetType)
	everything.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.PACKET_OUTGOING, 0, 1)
	everything.end(drop)
	everything.end(pass)
	s, err := listen(open, index, etherType, everything)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.file.Close() })
	return &tap{packetSocket: s, t: t, mac: mac}
}

func interfaceIn(t testing.TB, open opener, name string) (int, MAC) {
	t.Helper()
	all, err := (&kernel{open: open}).interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all.byIndex {
		if f.name == name {
			return f.index, f.mac
		}
	}
	t.Fatal("no interface", name)
	return 0, MAC{}
}

func (s *tap) mustSend(frame []byte) {
	s.t.Helper()
	if err := s.send(frame); err != nil {
		s.t.Fatal(err)
	}
}

// next waits for a frame that counts; nil: none came in time.
func (s *tap) next(patience time.Duration, counts func(frame []byte, p packet) bool) []byte {
	s.t.Helper()
	buf := make([]byte, maxFrame)
	if err := s.file.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	for {
		n, err := s.file.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if p, ok := parse(buf[:n]); ok && counts(buf[:n], p) {
			return buf[:n]
		}
	}
}

// sniffer counts what a host sends, at the port of the bridge that it is plugged into.
type sniffer struct {
	mu     sync.Mutex
	frames []sniffed
}

type sniffed struct {
	at    time.Time
	frame []byte
	packet
}

func (h *host) sniff() *sniffer {
	h.t.Helper()
	bridge := &host{t: h.t, ns: h.lan.ns}
	index, _ := interfaceIn(h.t, bridge.open, fmt.Sprintf("p%deth0", h.number))
	s := &sniffer{}
	go s.read(newTap(h.t, bridge.open, index, unix.ETH_P_ALL, MAC{})) // a bridge takes the frame before sockets of one EtherType see it
	return s
}

func (s *sniffer) read(from *tap) {
	buf := make([]byte, maxFrame)
	for {
		n, err := from.file.Read(buf)
		if err != nil {
			return
		}
		if p, ok := parse(buf[:n]); ok {
			s.mu.Lock()
			s.frames = append(s.frames, sniffed{time.Now(), append([]byte(nil), buf[:n]...), p})
			s.mu.Unlock()
		}
	}
}

// saying are the frames since a time that assert an address or ask for it.
func (s *sniffer) saying(since time.Time, addr netip.Addr) (frames []sniffed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.frames {
		if !f.at.Before(since) && (f.asserts == addr || f.asks == addr) {
			frames = append(frames, f)
		}
	}
	return frames
}

// woken is how many frames the filter of the link has let through since it was last asked.
func (l *link) woken(t testing.TB) int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	conn, err := l.socket.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var stats *unix.TpacketStats
	if cErr := conn.Control(func(fd uintptr) {
		stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	}); cErr != nil || err != nil {
		t.Fatal(cErr, err)
	}
	return int(stats.Packets)
}
