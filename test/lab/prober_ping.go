package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// Types of ICMP messages (RFC 792, RFC 4443).
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// pingPairs starts a prober that sends ICMP echo requests over all pairs in turn.
func pingPairs(ctx context.Context, pairs []pair, is4 bool) (*Prober, error) {
	e := &echoes{format: echo{uint16(os.Getpid()), is4}}
	network := map[bool]string{true: "ip4:icmp", false: "ip6:ipv6-icmp"}[is4]
	for _, p := range pairs {
		conn, err := p.dialer.DialContext(ctx, network, p.to.String())
		if err != nil {
			e.close()
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		e.flow(conn, fmt.Errorf("%w: %s", errNoEcho, p.name))
	}
	e.patience = pingTimeout
	return e.probe(ctx, pingsPerPair*len(pairs)), nil
}

// echo writes and reads echo messages of one identifier.
type echo struct {
	id  uint16
	is4 bool
}

func (f echo) write(n uint64) []byte {
	b := make([]byte, 8, 16)
	b[0] = echoRequest6
	if f.is4 {
		b[0] = echoRequest4
	}
	binary.BigEndian.PutUint16(b[4:], f.id)
	b = binary.BigEndian.AppendUint64(b, n)
	if f.is4 { // for IPv6 the kernel does it
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

func (f echo) read(b []byte) (n uint64, ok bool) {
	reply := byte(echoReply6)
	if f.is4 { // a raw socket of IPv4 has the IP header as well
		reply, b = echoReply4, b[min(len(b), int(b[0]&0xf)*4):]
	}
	if len(b) != 16 || b[0] != reply || binary.BigEndian.Uint16(b[4:]) != f.id {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[8:]), true
}

// checksum is the Internet checksum (RFC 1071) of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// probe sends so many messages a second, over all flows in turn, until it is stopped.
func (e *echoes) probe(ctx context.Context, rate int) *Prober {
	ctx, stop := context.WithCancel(ctx)
	p := &Prober{stop: stop, under: e.report}
	go p.stalls.Run(ctx)
	p.sent.Go(func() {
		e.send(ctx, rate)
		time.Sleep(e.patience) // what comes back later than this is lost
		e.close()
	})
	return p
}
