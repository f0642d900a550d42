package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// Sniffer sees what hosts of a rack send, each at its own port of the switch: also what is lost
// afterwards in a severed way.
type Sniffer struct {
	stop context.CancelFunc
	read sync.WaitGroup
	mu   sync.Mutex
	// frames are those of ARP and neighbour discovery, as they were read.
	frames []Frame
	counts map[string]map[FrameKind]int // of all frames, by host
}

// Sniff begins to follow these hosts.
func (l *Lab) Sniff(ctx context.Context, hosts ...string) (*Sniffer, error) {
	ctx, stop := context.WithCancel(ctx)
	s := &Sniffer{stop: stop, counts: map[string]map[FrameKind]int{}}
	for _, host := range hosts {
		s.counts[host] = map[FrameKind]int{}
		for _, port := range l.ports(host) {
			fd, err := packetSocket(l.Namespace(switchHost), port)
			if err != nil {
				s.Stop()
				return nil, fmt.Errorf("port of %s: %w", host, err)
			}
			s.read.Go(func() { s.follow(ctx, host, fd) })
		}
	}
	return s, nil
}

// packetSocket receives every frame that comes in at a device of a namespace, with the time at
// which the kernel had it.
func packetSocket(namespace, device string) (fd int, err error) {
	err = netns.Do(namespace, func() error {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: dev.Index}))
		if err != nil {
			unix.Close(fd)
		}
		return err
	})
	return fd, err
}

func htons(v uint16) uint16 { return v<<8 | v>>8 } // every machine that the lab runs on is little-endian

// receive reads one frame and when the kernel had it; none within a while: false.
func receive(fd int, buffer, control []byte) (frame []byte, at time.Time, ok bool) {
	n, oob, _, _, err := unix.Recvmsg(fd, buffer, control, 0)
	if err != nil {
		return nil, at, false
	}
	messages, _ := unix.ParseSocketControlMessage(control[:oob])
	for _, m := range messages {
		if m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return buffer[:n], at, true
}

func (s *Sniffer) follow(ctx context.Context, host string, fd int) {
	defer unix.Close(fd)
	buffer, control := make([]byte, 2048), make([]byte, 128)
	for ctx.Err() == nil {
		b, at, ok := receive(fd, buffer, control)
		if !ok {
			continue
		}
		f := parse(b)
		f.Host, f.At = host, at
		s.mu.Lock()
		s.counts[host][f.Kind]++
		if f.Address.IsValid() {
			s.frames = append(s.frames, f)
		}
		s.mu.Unlock()
	}
}

// Stop ends the sniffer.
func (s *Sniffer) Stop() {
	s.stop()
	s.read.Wait()
}

// Frames are those of ARP and neighbour discovery so far for which keep is true, in the order of
// time.
func (s *Sniffer) Frames(keep func(Frame) bool) []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []Frame
	for _, f := range s.frames {
		if keep(f) {
			kept = append(kept, f)
		}
	}
	slices.SortStableFunc(kept, func(a, b Frame) int { return a.At.Compare(b.At) })
	return kept
}

// Count is how many frames of a kind a host has sent so far.
func (s *Sniffer) Count(host string, kind FrameKind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[host][kind]
}
