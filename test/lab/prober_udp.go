package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

// udpFlows is the number of source ports that packets take turns with, so that
// all next hops of a multipath route are seen.
const udpFlows = 32

var errNoEcho = errors.New("no echo")

// ProbeUDP starts a prober that sends so many numbered packets a second to an
// echo server and counts those that do not come back.
func (l *Lab) ProbeUDP(ctx context.Context, address string, rate int) (*Prober, error) {
	dialer := netns.NewDialer(l.Namespace(clientHost))
	defer dialer.Close()
	e := new(echoes)
	for range udpFlows {
		conn, err := dialer.DialContext(ctx, "udp", address)
		if err != nil {
			e.close()
			return nil, err
		}
		e.flows = append(e.flows, conn)
		go e.receive(conn)
	}
	ctx, stop := context.WithCancel(ctx)
	p := &Prober{stop: stop}
	p.sent.Go(func() {
		e.send(ctx, rate)
		time.Sleep(probeTimeout) // what comes back later than this is lost
		e.close()
		for _, one := range e.probes {
			p.add(one)
		}
	})
	return p, nil
}

// echoes holds what was sent and not come back yet.
type echoes struct {
	flows  []net.Conn
	mu     sync.Mutex
	probes []probe // by number
}

// send keeps the rate on a busy machine, too: what a late tick missed is sent with
// the next one.
func (e *echoes) send(ctx context.Context, rate int) {
	tick := time.NewTicker(max(time.Second/time.Duration(rate), time.Millisecond))
	defer tick.Stop()
	begun := time.Now()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(begun).Seconds() * float64(rate)); n < due; n++ {
			e.one(n)
		}
	}
}

// one sends a packet. One that the kernel refuses is as lost as one that vanishes.
func (e *echoes) one(n int) {
	e.mu.Lock()
	e.probes = append(e.probes, probe{at: time.Now(), err: errNoEcho})
	e.mu.Unlock()
	_, _ = e.flows[n%udpFlows].Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (e *echoes) receive(conn net.Conn) {
	buffer := make([]byte, 64)
	for {
		n, err := conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n != 8 {
			continue // an ICMP error is only another lost packet
		}
		number := binary.BigEndian.Uint64(buffer)
		e.mu.Lock()
		if number < uint64(len(e.probes)) {
			e.probes[number].err = nil
		}
		e.mu.Unlock()
	}
}

func (e *echoes) close() {
	for _, c := range e.flows {
		c.Close()
	}
}
