package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/icmp"

	"plinth.dev/plinth/test/lab/netns"
)

// icmpErrors are the ICMP errors that a host of the lab is sent about its connections. A socket has one error number for
// many of them (EHOSTUNREACH: no route, nobody at the address, a hop limit) and never says who sent it.
type icmpErrors struct {
	sockets []net.PacketConn
	reads   sync.WaitGroup

	mu  sync.Mutex
	all map[flow][]string // what each says, in order
}

// Protocols of ICMP, as package icmp numbers them (RFC 792, RFC 4443).
var icmpProtocols = []struct {
	network, address string
	number           int
}{{"ip4:icmp", "0.0.0.0", 1}, {"ip6:ipv6-icmp", "::", protocolICMPv6}}

// noteICMPErrors begins to note those that come to a namespace.
func noteICMPErrors(namespace string) (*icmpErrors, error) {
	e := &icmpErrors{all: map[flow][]string{}}
	for _, p := range icmpProtocols {
		var socket net.PacketConn
		if err := netns.Do(namespace, func() (err error) {
			socket, err = net.ListenPacket(p.network, p.address)
			return err
		}); err != nil {
			return nil, errors.Join(err, e.close())
		}
		e.sockets = append(e.sockets, socket)
		e.reads.Go(func() { e.read(socket, p.number) })
	}
	return e, nil
}

func (e *icmpErrors) read(socket net.PacketConn, protocol int) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return // closed, or the time is over that end gives it
		}
		if f, says, ok := readICMPError(protocol, buffer[:n]); ok {
			e.mu.Lock()
			e.all[f] = append(e.all[f], fmt.Sprintf("%s from %s", says, from))
			e.mu.Unlock()
		}
	}
}

// end notes what has come up to now, and nothing later. The second time it does nothing.
func (e *icmpErrors) end() error {
	const readWhatIsThere = 100 * time.Millisecond
	for _, s := range e.sockets {
		_ = s.SetReadDeadline(time.Now().Add(readWhatIsThere)) // else it is closed, and nobody reads
	}
	e.reads.Wait()
	return e.close()
}

func (e *icmpErrors) close() error {
	var failed []error
	for _, s := range e.sockets {
		failed = append(failed, s.Close())
	}
	e.sockets = nil
	return errors.Join(failed...)
}

// of is what was said about a connection, once end has returned.
func (e *icmpErrors) of(f flow) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all[f])
}

// readICMPError reads of which connection an ICMP error speaks, by the packet that it quotes, and what it says.
func readICMPError(protocol int, message []byte) (f flow, says string, ok bool) {
	m, err := icmp.ParseMessage(protocol, message)
	if err != nil {
		return flow{}, "", false
	}
	var quoted []byte
	switch body := m.Body.(type) {
	case *icmp.DstUnreach:
		quoted = body.Data
	case *icmp.TimeExceeded:
		quoted = body.Data
	default:
		return flow{}, "", false
	}
	// The packet has its IP header, without options of IPv6, and the port numbers at least.
	header, to := 40, 24
	if protocol != protocolICMPv6 {
		if len(quoted) == 0 {
			return flow{}, "", false
		}
		header, to = int(quoted[0]&0xf)*4, 16
	}
	if len(quoted) < header+4 || header < 20 {
		return flow{}, "", false
	}
	size := map[bool]int{true: 16, false: 4}[protocol == protocolICMPv6]
	f.vip, _ = netip.AddrFromSlice(quoted[to : to+size])
	f.port = int(binary.BigEndian.Uint16(quoted[header:]))
	return f, fmt.Sprintf("ICMP %v, code %d,", m.Type, m.Code), true
}
