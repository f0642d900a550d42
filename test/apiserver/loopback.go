package apiserver

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// These are the ports of a server's own address. Clients connect from 127.0.0.1,
// so no connection takes one of them.
const (
	guardPort = 24000 + iota // held for the whole test by the one who has the address
	serverPort
	storePort
	storePeerPort
	schedulerPort
	MetricsPort // free for a program that a test starts
)

// claimed is how many addresses this process has tried.
var claimed atomic.Uint32

// claimHost returns an address of 127.64.0.0/10 that no other test has, of this
// process or of another, until guard is closed. Programs that are started, killed
// and started anew there find their ports free.
func claimHost(t testing.TB) (host string, guard net.Listener) {
	t.Helper()
	for range 1000 {
		number := uint32(os.Getpid())<<6 + claimed.Add(1)
		host := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 127<<24|1<<22|number%(1<<22)))).String()
		guard, err := listen(host, guardPort)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue // another test has it
		}
		if err != nil {
			t.Fatal(err)
		}
		for port := serverPort; port <= MetricsPort; port++ {
			l, err := listen(host, port)
			if err != nil {
				t.Fatalf("a program listens on this port of all addresses: %v", err)
			}
			l.Close()
		}
		return host, guard
	}
	t.Fatalf("no address of 127.64.0.0/10 has port %d free", guardPort)
	return "", nil
}

func listen(host string, port int) (net.Listener, error) {
	return net.Listen("tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
}
