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
	return l.ProbeUDPFrom(ctx, clientHost, address, rate)
}

// ProbeUDPFrom is ProbeUDP from another host of the lab than the outside client.
func (l *Lab) ProbeUDPFrom(ctx context.Context, host, address string, rate int) (*Prober, error) {
	dialer := netns.NewDialer(l.Namespace(host))
	defer dialer.Close()
	e := &echoes{format: number{}, patience: probeTimeout}
	for range udpFlows {
		conn, err := dialer.DialContext(ctx, "udp", address)
		if err != nil {
			e.close()
			return nil, err
		}
		if err := netns.MakeRoom(conn.(*net.UDPConn)); err != nil {
			e.close()
			return nil, err
		}
		e.flow(conn, errNoEcho)
	}
	p := e.probe(ctx, rate)
	p.countDrops = l.udpDropped
	p.Forget()
	return p, nil
}

// udpDropped counts the UDP packets that the kernel has dropped since programs read them too late, by namespace of the
// lab: those of its pods are among them. What a pod's kernel has counted goes with the pod.
func (l *Lab) udpDropped() map[string]int {
	counts := map[string]int{}
	spaces, _ := namespacesOf(l.record.Name) // that it cannot be counted is no loss
	for _, s := range spaces {
		if n, err := netns.UDPDropped(s); err == nil { // else it has gone meanwhile
			counts[s] = n
		}
	}
	return counts
}

// number is a packet that holds its number and nothing else.
type number struct{}

func (number) write(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (number) read(b []byte) (n uint64, ok bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

// echoes holds what was sent and not come back yet.
type echoes struct {
	format interface {
		write(n uint64) []byte
		read([]byte) (n uint64, ok bool)
	}
	flows  []net.Conn
	losses []error // of each flow: what a lost packet is called
	// patience is how long an echo may take until it counts as lost.
	patience time.Duration
	mu       sync.Mutex
	probes   []probe // by number
}

// flow takes a connection over which packets are to be sent in turn.
func (e *echoes) flow(conn net.Conn, loss error) {
	e.flows, e.losses = append(e.flows, conn), append(e.losses, loss)
	go e.receive(conn)
}

// catchUp is how many packets are sent at once, at most: more would overflow what the network keeps of them.
const catchUp = 50

// send keeps the rate on a busy machine, too: what a late tick missed is sent with
// the next ones.
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
		due := int(time.Since(begun).Seconds() * float64(rate))
		for end := min(due, n+catchUp); n < end; n++ {
			e.one(n)
		}
	}
}

// one sends a packet. One that the kernel refuses is as lost as one that vanishes.
func (e *echoes) one(n int) {
	flow := n % len(e.flows)
	e.mu.Lock()
	e.probes = append(e.probes, probe{at: time.Now(), err: e.losses[flow]})
	e.mu.Unlock()
	_, _ = e.flows[flow].Write(e.format.write(uint64(n)))
}

func (e *echoes) receive(conn net.Conn) {
	buffer := make([]byte, 64)
	for {
		n, err := conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error is only another lost packet
		}
		number, ok := e.format.read(buffer[:n])
		e.mu.Lock()
		if ok && number < uint64(len(e.probes)) {
			e.probes[number].err = nil
		}
		e.mu.Unlock()
	}
}

// report returns what was sent long enough ago to be lost if it has not come back.
func (e *echoes) report() []probe {
	e.mu.Lock()
	defer e.mu.Unlock()
	var settled []probe
	for _, one := range e.probes {
		if one.err == nil || time.Since(one.at) > e.patience {
			settled = append(settled, one)
		}
	}
	return settled
}

func (e *echoes) close() {
	for _, c := range e.flows {
		c.Close()
	}
}
