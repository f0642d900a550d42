package bgp

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"
)

// asConnecting makes this binary another program, which connects from 127.0.0.1 to the address
// in the variable.
const asConnecting = "PLINTH_TEST_CONNECTING"

func TestConnectingProcess(t *testing.T) {
	to := os.Getenv(asConnecting)
	if to == "" {
		return // only when started by connectElsewhere
	}
	c, err := net.DialTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, c) // one that nothing refers to any more would be closed by the garbage collector
	t.Log("the connection has ended: ", err)
}

// connectElsewhere starts another program that connects, until the test ends.
func connectElsewhere(t *testing.T, to net.Addr) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestConnectingProcess$")
	cmd.Env = append(os.Environ(), asConnecting+"="+to.String(), "PLINTH_TEST_AGENT=connecting")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func TestAConnectionOfAnotherProgramIsToldFromOurOwn(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.77:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	router := netip.MustParseAddrPort(listener.Addr().String())
	session := sessionTo(router.Addr().String())
	session.Local, session.Port = netip.MustParseAddr("127.0.0.1"), router.Port()
	own, err := net.DialTCP("tcp4", &net.TCPAddr{IP: session.Local.AsSlice()}, net.TCPAddrFromAddrPort(router))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	ends := connections(session.Local, session.RouterAddr, 0, session.Port)
	if len(ends) != 1 || ends[0].local.String() != own.LocalAddr().String() || ends[0].remote != router || int(ends[0].user) != os.Getuid() {
		t.Fatalf("our connection from %v: %v", own.LocalAddr(), ends)
	}
	if c, taken := heldByOther(session); taken {
		t.Errorf("%v is our own", c)
	}
	connectElsewhere(t, listener.Addr())
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, taken := heldByOther(session)
		if taken && c.local.Addr() == session.Local && c.local.String() != own.LocalAddr().String() {
			break
		}
		if time.Since(begin) > 30*time.Second { // a program is started on a machine that builds others
			t.Fatalf("the other program's connection is not found: %v, %v of %v", c, taken, connections(session.Local, session.RouterAddr, 0, session.Port))
		}
	}
	session.Local = netip.MustParseAddr("127.0.0.2")
	if c, taken := heldByOther(session); taken {
		t.Errorf("%v is from another address than %v", c, session.Local)
	}
}

// Of a connection within the machine the router's end is another program's as well.
func TestARouterAtTheMachinesOwnAddressIsNoOtherSpeaker(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connectElsewhere(t, listener.Addr())
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	s := sessionTo("127.0.0.1")
	s.Local, s.Port = s.RouterAddr, netip.MustParseAddrPort(listener.Addr().String()).Port()
	if c, taken := heldByOther(s); taken {
		t.Errorf("%v may be the router's end of ours", c)
	}
}

// GoBGP and others listen for both families at once.
func TestAConnectionOverIPv4OfASocketForBothFamiliesIsFound(t *testing.T) {
	listener, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	here := netip.MustParseAddr("127.0.0.1")
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	conn, err := net.Dial("tcp4", netip.AddrPortFrom(here, port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if all := connections(here, here, port, 0); len(all) != 1 || all[0].remote.String() != conn.LocalAddr().String() {
		t.Errorf("the listener's end: %v", all)
	}
}

func TestAConnectionOverIPv6IsFound(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here := netip.MustParseAddrPort(l.Addr().String())
	conn, err := net.Dial("tcp6", here.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if all := connections(here.Addr(), here.Addr(), 0, here.Port()); len(all) != 1 || all[0].local.String() != conn.LocalAddr().String() || all[0].remote != here {
		t.Errorf("the connection from %v: %v", conn.LocalAddr(), all)
	}
}
